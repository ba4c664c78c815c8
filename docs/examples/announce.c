/* Announces a flow to the agent and prints the source port for its path: announce SOURCE
 * DESTINATION Both are addresses of NICs. */
#include <arpa/inet.h>
#include <espalier/espalier_agent.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* IPv4 addresses stand in the last four bytes, behind 0xffff. */
static int ReadAddress(const char* text, uint8_t address[16]) {
  memset(address + 10, 0xff, 2);
  return inet_pton(AF_INET, text, address + 12);
}

int main(int argc, char** argv) {
  struct espalier_flow_desc description = {.job = "example",
                                           .protocol = 17, /* UDP */
                                           .max_paths = 1,
                                           .movable = 1,
                                           .destination_port = 4791,
                                           .remaining_bytes = 1000000000};
  if (argc != 3 || ReadAddress(argv[1], description.source) != 1 ||
      ReadAddress(argv[2], description.destination) != 1) {
    fprintf(stderr, "usage: announce SOURCE DESTINATION\n");
    return 2;
  }
  espalier_agent* agent = NULL;
  int code = espalier_agent_connect(NULL, &agent);
  if (code != 0) {
    fprintf(stderr, "no agent: %s\n", strerror(-code));
    return 1;
  }
  espalier_flow* flow = NULL;
  code = espalier_flow_open(agent, &description, &flow);
  if (code != 0) {
    fprintf(stderr, "no flow: %s\n", strerror(-code));
    espalier_agent_close(agent);
    return 1;
  }
  /* A real program sends meanwhile, from any port, and looks before each message. */
  struct pollfd wake = {.fd = espalier_agent_fd(agent), .events = POLLIN};
  struct espalier_path_set paths = {0};
  while (paths.path_count == 0 && poll(&wake, 1, 10000) == 1 &&
         espalier_agent_dispatch(agent) == 0) {
    espalier_flow_paths(flow, &paths);
  }
  if (paths.path_count == 0) {
    printf("no path set: the flow keeps its own port (plain ECMP)\n");
  } else {
    printf("send the next message from source port %u\n", paths.source_port[0]);
    espalier_flow_progress(flow, 0, 0, description.remaining_bytes, paths.source_port[0]);
  }
  espalier_flow_close(flow);
  espalier_agent_close(agent);
  return 0;
}
