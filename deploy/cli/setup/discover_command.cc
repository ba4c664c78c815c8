#include "deploy/cli/setup/discover_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/files/command_result.h"
#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/files/topology_file.h"
#include "controller/offline/imports/combine.h"
#include "controller/offline/imports/discovered.h"
#include "deploy/cli/session/operator_session.h"
#include "deploy/cli/setup/import_commands.h"
#include "deploy/cli/setup/topology_difference.h"

namespace espalier::cli {
namespace {

using imports::Cabling;
using imports::Imported;

constexpr auto kPollInterval = std::chrono::milliseconds(500);
constexpr auto kFirstProgress = std::chrono::seconds(1);
constexpr auto kProgressInterval = std::chrono::seconds(5);

struct DiscoverRequest {
  explicit DiscoverRequest(int& exit_code) : session(exit_code) {}

  Session session;
  std::vector<std::string> networks;
  std::vector<std::string> others;  // FORMAT=FILE
  std::string like;                 // topology file
  std::string compare;              // topology file
  std::string facts;
  std::string gbps = "100";
  std::string output;
  bool is_fresh = false;
  unsigned time_limit_s = 600;
};

void Refuse(DiscoverRequest& request, const Error& error) {
  const int code = error.code == ErrorCode::kUnavailable ? 1 : 2;
  Report(request.session, ErrorCodeName(error.code), error.message, code);
}

std::string TextOf(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* value = object.Find(key);
  return value == nullptr ? "" : value->text;
}

std::size_t CountOf(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* value = object.Find(key);
  return value == nullptr ? 0 : value->items.size();
}

// The answer to a request, as text and parsed; none if the failure is reported.
struct Answer {
  std::string text;
  io::JsonValue json;
};
std::optional<Answer> Call(Session& session, const std::string& method, const std::string& path) {
  const auto response = Send(session, method, path, "");
  if (!response) {
    Report(session, ErrorCodeName(response.error().code), response.error().message, 1);
    return std::nullopt;
  }
  auto json = TakeAnswer(session, *response);
  if (!json) return std::nullopt;
  return Answer{response->body, std::move(*json)};
}

// Waits until the agents have found all that probes show.
std::optional<Answer> Discover(DiscoverRequest& request) {
  std::string target = fmt::format("/api/v1/topology/discover?fresh={}", request.is_fresh);
  std::string networks;
  for (const std::string& network : request.networks) {
    networks += (networks.empty() ? "" : ",") + network;
  }
  if (!networks.empty()) target += "&network=" + UrlEncode(networks);
  auto answer = Call(request.session, "POST", target);
  const auto begin = std::chrono::steady_clock::now();
  auto next_progress = begin + kFirstProgress;
  while (answer && TextOf(answer->json, "state") == "RUNNING") {
    const auto now = std::chrono::steady_clock::now();
    if (now - begin > std::chrono::seconds(request.time_limit_s)) {
      Report(request.session, ErrorCodeName(ErrorCode::kUnavailable),
             fmt::format("the agents are still probing after {} s (repeat the command, which "
                         "continues, or raise --time-limit)",
                         request.time_limit_s),
             1);
      return std::nullopt;
    }
    if (now >= next_progress) {
      next_progress = now + kProgressInterval;
      fmt::print(stderr, "probing: {} probes, {} answers, {} switches, {} links\n",
                 TextOf(answer->json, "probes"), TextOf(answer->json, "answers"),
                 CountOf(answer->json, "switches"), CountOf(answer->json, "links"));
    }
    std::this_thread::sleep_for(kPollInterval);
    answer = Call(request.session, "GET", "/api/v1/topology/discovery");
  }
  return answer;
}

// The topology of what was found, with names, rates and ports of the files that were given.
Result<Imported> MakeTopology(const DiscoverRequest& request, const std::string& facts,
                              const std::optional<fabric::Topology>& like) {
  const auto rate = ParseGbps(request.gbps);
  if (!rate) return Fail(rate.error().code, "--gbps: " + rate.error().message);
  auto found = imports::ReadDiscovery(facts, "discovery");
  if (!found) return Propagate(found);
  // The answer has these sentences, too.
  std::erase_if(found->remarks, [](const std::string& remark) {
    return remark.starts_with("missing: ") || remark.starts_with("contradictions: ");
  });
  if (like) imports::AdoptNames(*found, imports::NamesIn(*like));
  std::vector<Cabling> sources = {std::move(*found)};
  auto others = ReadOtherSources(request.others);
  if (!others) return Propagate(others);
  for (Cabling& other : *others) sources.push_back(std::move(other));
  auto imported = imports::Combine(sources, {.name = "discovered", .rate = *rate, .kinds = {}});
  if (imported && like) imported->spec = imports::CompleteFrom(imported->spec, *like);
  return imported;
}

void PrintSentences(const io::JsonValue& answer, const Imported& imported) {
  const auto print = [&](const char* what, const char* key) {
    const io::JsonValue* sentences = answer.Find(key);
    if (sentences == nullptr) return;
    for (const io::JsonValue& sentence : sentences->items) {
      fmt::print(stderr, "{}: {}\n", what, sentence.text);
    }
  };
  print("contradiction", "contradictions");
  print("missing", "missing");
  for (const std::string& sentence : imported.missing)
    fmt::print(stderr, "missing: {}\n", sentence);
  for (const std::string& sentence : imported.assumptions) {
    fmt::print(stderr, "assumed: {}\n", sentence);
  }
  for (const std::string& sentence : imported.remarks) fmt::print(stderr, "note: {}\n", sentence);
}

void WriteJson(const io::JsonValue& answer, const Imported& imported, const fabric::Topology& made,
               const std::optional<fabric::Topology>& compared) {
  io::JsonWriter json;
  json.BeginObject();
  for (const char* key : {"state", "rounds", "probes", "answers", "confidence"}) {
    json.Key(key).Value(*answer.Find(key));
  }
  json.Key("nodes").Integer(static_cast<std::int64_t>(made.nodes().size()));
  json.Key("links").Integer(static_cast<std::int64_t>(made.links().size()));
  for (const char* key : {"missing", "contradictions"}) json.Key(key).Value(*answer.Find(key));
  json.Key("assumptions").BeginArray();
  for (const std::string& sentence : imported.assumptions) json.String(sentence);
  json.EndArray();
  if (compared) {
    WriteTopologyDifference(json, *compared, made);
  } else {
    json.Key("changes").BeginArray().EndArray();
  }
  fmt::print("{}\n", json.EndObject().Text());
}

Result<std::optional<fabric::Topology>> ReadIfGiven(const std::string& file) {
  if (file.empty()) return std::nullopt;
  auto topology = io::ReadTopologyFile(file);
  if (!topology) return Propagate(topology);
  return std::optional<fabric::Topology>(std::move(*topology));
}

void Run(DiscoverRequest& request) {
  Session& session = request.session;
  const auto compared = ReadIfGiven(request.compare);
  if (!compared) return Refuse(request, compared.error());
  const auto like = request.like.empty() ? compared : ReadIfGiven(request.like);
  if (!like) return Refuse(request, like.error());
  const auto answer = Discover(request);
  if (!answer) return;
  if (!request.facts.empty()) {
    const auto written = io::WriteFileDurably(request.facts, answer->text + "\n");
    if (!written) return Refuse(request, written.error());
  }
  const auto imported = MakeTopology(request, answer->text, *like);
  if (!imported) return Refuse(request, imported.error());
  auto made = fabric::Topology::Build(imported->spec);
  if (!made) return Refuse(request, made.error().error);
  if (!session.json) PrintSentences(answer->json, *imported);
  if (!request.output.empty()) {
    session.exit_code = io::WriteOutput(io::FormatTopology(imported->spec), request.output);
    if (session.exit_code != 0) return;
  }
  if (session.json) return WriteJson(answer->json, *imported, *made, *compared);
  fmt::print(stderr, "found with confidence {}: {} nodes, {} links, by {} probes\n",
             TextOf(answer->json, "confidence"), made->nodes().size(), made->links().size(),
             TextOf(answer->json, "probes"));
  if (*compared) {
    PrintTopologyDifference(**compared, *made);
  } else if (request.output.empty()) {
    fmt::print("{}", io::FormatTopology(imported->spec));
  }
}

}  // namespace

void AddDiscoverCommand(CLI::App& group, int& exit_code) {
  const auto request = std::make_shared<DiscoverRequest>(exit_code);
  const std::shared_ptr<Session> session(request, &request->session);
  CLI::App* command = AddCommand(
      group, session, "discover",
      "Have the agents of a running controller discover the fabric by probes, and write a topology "
      "file; nothing changes until it is applied. Repeating the command continues");
  command->add_option("-o,--output", request->output, "File to write (default: standard output)");
  command
      ->add_option("--facts", request->facts,
                   "File to write what was found to, for `espalier topology import discovery`")
      ->type_name("FILE");
  command
      ->add_option("--with", request->others,
                   "File of another format with names, ports and rates of switches that have the "
                   "same addresses, such as sonic=leaf0.json (repeatable)")
      ->type_name("FORMAT=FILE")
      ->allow_extra_args(false);
  command
      ->add_option("--like", request->like,
                   "Topology file from which names, ports, rates and the insides of hosts are "
                   "copied, where addresses agree")
      ->type_name("FILE");
  command
      ->add_option("--compare", request->compare,
                   "Topology file to compare with, which also serves as --like: prints what "
                   "differs in the fabric")
      ->type_name("FILE");
  command
      ->add_option("--network", request->networks,
                   "Prefixes of the NICs that take part, such as 10.0.0.0/8 (default: all)")
      ->type_name("PREFIX")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_flag("--fresh", request->is_fresh,
                    "Forget what was found before, as after a change of cables");
  command
      ->add_option("--gbps", request->gbps,
                   "Bandwidth of links whose rate no file states, in Gbit/s (decimal number)")
      ->type_name("GBPS")
      ->capture_default_str();
  command
      ->add_option("--time-limit", request->time_limit_s,
                   "Seconds to wait until the agents are done")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(1U, 86'400U));
  command->footer(
      "Examples:\n"
      "  espalier topology discover -o fabric.json\n"
      "  espalier topology discover --fresh --compare fabric.json");
  command->callback([request] { Run(*request); });
}

}  // namespace espalier::cli
