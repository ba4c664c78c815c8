#include "deploy/cli/operator/bundle_command.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/time/wall_time.h"
#include "common/files/file.h"
#include "common/files/json_writer.h"
#include "deploy/cli/bundle/archive.h"

namespace espalier::cli {
namespace {

constexpr const char* kDefaultConfig = "/etc/espalier/controller.conf";
constexpr Duration kMetricsLimit = std::chrono::seconds(10);

struct BundleOptions {
  std::string output;
  std::vector<std::string> configs;
};

// A file of the bundle, and where the API has its content.
struct Part {
  const char* file;
  const char* target;
  const char* array;  // of a list that is read in pages; "": the answer is complete
  const char* help;
};
constexpr Part kParts[] = {
    {"status.json", "/api/v1/status", "", "health, figures and versions of the state"},
    {"nodes.json", "/api/v1/nodes", "nodes", "hosts and switches"},
    {"links.json", "/api/v1/links", "links", "links with states, loads and reasons"},
    {"agents.json", "/api/v1/agents", "agents", "agents"},
    {"flows.json", "/api/v1/flows", "flows", "open flows with their paths"},
    {"flows-ended.json", "/api/v1/flows/ended", "flows", "flows that ended last"},
    {"jobs.json", "/api/v1/jobs", "jobs", "jobs with their rounds"},
    {"forests.json", "/api/v1/forests", "", "jobs on forests"},
    {"plans.json", "/api/v1/plans", "plans", "paths pushed to agents"},
    {"events.json", "/api/v1/events", "events", "events"},
    {"history.json", "/api/v1/history?from=-2h", "", "history of the fabric over two hours"},
    {"audit.json", "/api/v1/audit", "", "operators' actions"},
    {"intents.json", "/api/v1/intents", "", "operators' intents in force"},
    {"policies.json", "/api/v1/policies", "", "policies: values and configured values"},
    {"steering.json", "/api/v1/steering", "", "what is steered"},
    {"maintenance.json", "/api/v1/maintenance", "", "maintenance windows"},
    {"predict.json", "/api/v1/predict", "", "predictions"},
};

struct Bundle {
  std::vector<ArchiveFile> files;
  std::string contents;  // a line for each file
  std::string missing;   // a line for what could not be had
  std::size_t missing_parts = 0;

  void Add(const std::string& name, std::string_view text, std::string_view help) {
    contents += fmt::format("{:20} {}\n", name, help);
    files.push_back({name, WithoutSecrets(text)});
  }
  void Miss(std::string_view name, std::string_view why) {
    missing += fmt::format("{:20} {}\n", name, why);
    ++missing_parts;
  }
};

// The answer of one part as JSON.
void Fetch(Session& session, const Part& part, Bundle& bundle) {
  session.is_silent = true;
  const auto answer = *part.array != '\0'
                          ? AskPages(session, part.target, part.array, /*print_json=*/false)
                          : Ask(session, "GET", part.target, /*print_json=*/false);
  session.is_silent = false;
  if (!answer) return bundle.Miss(part.file, "the controller does not answer, or refuses it");
  bundle.Add(part.file, io::JsonWriter().Value(*answer).Text() + "\n", part.help);
}

void FetchMetrics(const Session& session, Bundle& bundle) {
  const auto response = Send(session, "GET", "/metrics", "", kMetricsLimit);
  if (!response || response->status != 200) {
    return bundle.Miss("metrics.txt", response ? "the controller refuses it" : "no answer");
  }
  bundle.Add("metrics.txt", response->body, "the controller's metrics");
}

void AddConfigs(const BundleOptions& options, Bundle& bundle) {
  const std::vector<std::string> files =
      options.configs.empty() ? std::vector<std::string>{kDefaultConfig} : options.configs;
  std::size_t number = 0;
  for (const std::string& file : files) {
    const std::string name = fmt::format("config-{}.txt", ++number);
    const auto text = io::ReadFile(file);
    if (!text) {
      bundle.Miss(name, text.error().message);
    } else {
      bundle.Add(name, *text, fmt::format("{}, without secrets", file));
    }
  }
}

std::string Versions() {
  ::utsname system{};
  ::uname(&system);
  return fmt::format("espalier {}\n{} {} {}\n", ESPALIER_VERSION, system.sysname, system.release,
                     system.machine);
}

std::string Readme(const Bundle& bundle, WallTime now) {
  return fmt::format(
      "Support bundle of Espalier, made {} by `espalier bundle`.\n\n"
      "It holds names of hosts, links, jobs and operators, and addresses of network cards. It "
      "holds "
      "no key, and\naccess tokens and passwords were replaced by REMOVED.\n\n{}{}{}",
      FormatWallTime(now), bundle.contents, bundle.missing.empty() ? "" : "\nNot in it:\n",
      bundle.missing);
}

void Run(Session& session, const BundleOptions& options) {
  const WallTime now = SystemWallTime();
  Bundle bundle;
  bundle.Add("versions.txt", Versions(), "versions of the tool and of its machine");
  for (const Part& part : kParts) Fetch(session, part, bundle);
  FetchMetrics(session, bundle);
  const std::size_t unanswered = bundle.missing_parts;
  AddConfigs(options, bundle);
  bundle.files.insert(bundle.files.begin(), {"README.txt", Readme(bundle, now)});
  session.exit_code = 0;
  const auto archive = MakeArchive("espalier-bundle", bundle.files, now);
  const Result<void> written =
      archive ? io::WriteFileDurably(options.output, *archive, io::Readers::kOwner)
              : Result<void>(tl::unexpected<Error>(archive.error()));
  if (!written) {
    return Report(session, ErrorCodeName(written.error().code), written.error().message, 1);
  }
  if (session.json) {
    io::JsonWriter json;
    json.BeginObject();
    json.Key("file").String(options.output);
    json.Key("files").BeginArray();
    for (const ArchiveFile& file : bundle.files) json.String(file.name);
    json.EndArray();
    json.Key("missing").Integer(static_cast<std::int64_t>(bundle.missing_parts));
    fmt::print("{}\n", json.EndObject().Text());
  } else {
    fmt::print("{}: {} files (README.txt in it says what they are; it holds no secret)\n{}",
               options.output, bundle.files.size(),
               bundle.missing.empty() ? "" : "not in it:\n" + bundle.missing);
  }
  if (unanswered == 0) return;
  session.exit_code = ReportError(
      "the controller did not answer everything (is it running? --controller names it)", 1);
}

}  // namespace

void AddBundle(CLI::App& app, const SessionPtr& session) {
  CLI::App* command =
      AddCommand(app, session, "bundle",
                 "Write a support bundle: state, events, metrics, versions and configuration, "
                 "without secrets");
  const auto options = std::make_shared<BundleOptions>();
  command->add_option("--output,-o", options->output, "File to write, a .tar.gz")->required();
  command->add_option(
      "--config", options->configs,
      "Configuration file to include without its secrets; may be repeated (default: " +
          std::string(kDefaultConfig) + ")");
  command->footer("Examples:\n  espalier bundle -o espalier-bundle.tar.gz");
  command->callback([session, options] { Run(*session, *options); });
}

}  // namespace espalier::cli
