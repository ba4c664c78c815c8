/* A program whose flow is steered: tells the agent of a flow to an IPv4 address, waits for its
 * path set, sends datagrams to port 4791 from the port that it names, and prints that port.
 *   first_flow SOURCE DESTINATION */
#include <arpa/inet.h>
#include <espalier/espalier_agent.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kRocePort = 4791, kDatagrams = 100, kPatienceMs = 60000 };

static int ReportError(const char* what) {
  perror(what);
  return 1;
}

static int ParseMapped(const char* text, uint8_t address[16]) {
  memset(address, 0, 10);
  memset(address + 10, 0xff, 2);
  return inet_pton(AF_INET, text, address + 12);
}

/* Returns the port, or 0. */
static uint16_t AwaitPort(espalier_agent* agent, const espalier_flow* flow) {
  for (;;) {
    struct espalier_path_set paths;
    espalier_flow_paths(flow, &paths);
    if (paths.path_count > 0) return paths.source_port[0];
    struct pollfd wake = {.fd = espalier_agent_fd(agent), .events = POLLIN};
    if (poll(&wake, 1, kPatienceMs) != 1 || espalier_agent_dispatch(agent) != 0) return 0;
  }
}

static int Send(uint16_t port, const struct espalier_flow_desc* flow) {
  const int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
  if (datagrams < 0) return ReportError("socket");
  struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(port)};
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(kRocePort)};
  memcpy(&from.sin_addr, flow->source + 12, 4);
  memcpy(&to.sin_addr, flow->destination + 12, 4);
  if (bind(datagrams, (struct sockaddr*)&from, sizeof from) != 0) return ReportError("bind");
  for (int i = 0; i < kDatagrams; ++i) {
    const char payload[1000] = {0};
    if (sendto(datagrams, payload, sizeof payload, 0, (struct sockaddr*)&to, sizeof to) < 0) {
      return ReportError("sendto");
    }
  }
  close(datagrams);
  return 0;
}

int main(int argc, char** argv) {
  struct espalier_flow_desc description = {.job = "first",
                                           .protocol = 17,
                                           .max_paths = 1,
                                           .movable = 1,
                                           .destination_port = kRocePort,
                                           .remaining_bytes = 1000000000};
  if (argc != 3 || ParseMapped(argv[1], description.source) != 1 ||
      ParseMapped(argv[2], description.destination) != 1) {
    fprintf(stderr, "usage: first_flow SOURCE DESTINATION\n");
    return 2;
  }
  espalier_agent* agent = NULL;
  espalier_flow* flow = NULL;
  if (espalier_agent_connect(NULL, &agent) != 0) return ReportError("no agent");
  if (espalier_flow_open(agent, &description, &flow) != 0) return ReportError("no flow");
  const uint16_t port = AwaitPort(agent, flow);
  if (port == 0) {
    fprintf(stderr, "no path set came\n");
    return 1;
  }
  const int result = Send(port, &description);
  if (result == 0) printf("%u\n", port);
  fflush(stdout);
  getchar(); /* the flow stays open until standard input ends */
  espalier_agent_close(agent);
  return result;
}
