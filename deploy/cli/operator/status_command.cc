#include "deploy/cli/operator/status_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/terminal/interrupt.h"
#include "common/terminal/table.h"

namespace espalier::cli {
namespace {

constexpr const char* kTarget = "/api/v1/status";
constexpr std::chrono::milliseconds kWaitInterval(500);

struct StatusOptions {
  bool is_verbose = false;
  bool waits = false;
  double timeout = 300;  // seconds
};

void Line(std::string_view name, std::string_view value) { fmt::print("{:24} {}\n", name, value); }

// Names what operators failed or drained, by whom and why. It is no reason of the health word:
// nothing suffers where every flow has another path.
void PrintOutOfService(Session& session) {
  constexpr std::size_t kMostNamed = 8;
  const auto answer = Ask(session, "GET", "/api/v1/intents", /*print_json=*/false);
  const io::JsonValue* const intents = answer ? answer->Find("intents") : nullptr;
  if (intents == nullptr) return;
  std::size_t count = 0;
  for (const io::JsonValue& intent : intents->items) {
    const std::string what = RawText(intent, "what");
    const bool is_failed = what.starts_with("failed ");
    if (!is_failed && !what.starts_with("drained ")) continue;
    if (++count > kMostNamed) continue;
    const std::string reason = RawText(intent, "reason");
    Line(count == 1 ? "out_of_service" : "",
         fmt::format("{} is {}: by {}{}", RawText(intent, "id"), is_failed ? "failed" : "drained",
                     RawText(intent, "actor"), reason == "-" ? "" : ", " + reason));
  }
  if (count > kMostNamed) {
    Line("", fmt::format("and {} more (`espalier intents` lists them)", count - kMostNamed));
  }
}

void PrintHealth(Session& session, const io::JsonValue& status) {
  Line("health", RawText(status, "health"));
  if (const io::JsonValue* reasons = status.Find("health_reasons")) {
    for (const io::JsonValue& reason : reasons->items) Line("", EscapeControls(reason.text));
  }
  PrintOutOfService(session);
}

// Every figure, as the API has it.
void PrintAll(Session& session, const io::JsonValue& status) {
  PrintHealth(session, status);
  for (const auto& [key, value] : status.members) {
    if (key == "health" || key == "health_reasons") continue;
    if (value.kind != io::JsonValue::Kind::kObject) Line(key, RawText(status, key));
    for (const auto& [name, count] : value.members) Line("  " + name, count.text);
  }
}

bool IsZero(const std::string& text) { return text == "0" || text == "0.0" || text == "-"; }

std::string Count(const std::string& count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == "1" ? "" : "s");
}

// A rational such as "3/2" as a decimal number.
double ValueOf(const std::string& text) {
  const std::size_t slash = text.find('/');
  const double divisor =
      slash == std::string::npos ? 1 : std::strtod(text.c_str() + slash + 1, nullptr);
  return std::strtod(text.c_str(), nullptr) / (divisor > 0 ? divisor : 1);
}

// What the figures of the loads mean, in a sentence.
std::string LoadWords(const io::JsonValue& status) {
  const std::string load = RawText(status, "max_load");
  const std::string bound = RawText(status, "lower_bound");
  if (IsZero(load)) return "no link between switches carries a flow now";
  const std::string carries =
      fmt::format("the busiest link carries {:.3g} flow{}", ValueOf(load), load == "1" ? "" : "s");
  if (RawText(status, "optimal") == "yes")
    return carries + ": no assignment of these flows has less";
  return carries +
         fmt::format("; {:.3g} may be possible (`espalier recompute --dry-run`)", ValueOf(bound));
}

void PrintShort(Session& session, const io::JsonValue& status) {
  PrintHealth(session, status);
  Line("topology",
       fmt::format("{}, version {}", RawText(status, "topology"), RawText(status, "version")));
  Line("agents_connected",
       fmt::format("{} of {}", RawText(status, "agents_connected"), RawText(status, "hosts")));
  std::string flows = RawText(status, "flows");
  std::string parts;
  if (const io::JsonValue* by_status = status.Find("flows_by_status")) {
    for (const auto& [name, count] : by_status->members) {
      if (count.text != "0")
        parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", count.text, name);
    }
  }
  Line("flows", parts.empty() ? flows : fmt::format("{}: {}", flows, parts));
  Line("max_load", LoadWords(status));
  if (const std::string failure = RawText(status, "worst_failure"); failure != "-") {
    const std::string load = RawText(status, "worst_failure_load");
    Line("worst_failure",
         fmt::format("if {} fails, {} carries {:.3g} flows until hosts are told new paths", failure,
                     RawText(status, "worst_failure_link"), ValueOf(load)));
  }
  for (const auto& [key, noun] :
       {std::pair("links_awaiting_operator", "link"), {"unacknowledged_flows", "flow"}}) {
    const std::string count = RawText(status, key);
    if (!IsZero(count)) Line(key, Count(count, noun));
  }
}

void Print(Session& session, const StatusOptions& options, const io::JsonValue& status) {
  if (options.is_verbose) return PrintAll(session, status);
  PrintShort(session, status);
}

// Asks until the health is ok. A controller that does not answer yet may do so later.
void WaitUntilOk(Session& session, const StatusOptions& options) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(options.timeout);
  const Interrupt interrupt;
  while (true) {
    session.is_silent = true;
    auto status = Ask(session, "GET", kTarget, /*print_json=*/false);
    session.is_silent = false;
    const bool is_ok = status && RawText(*status, "health") == "ok";
    const bool is_late = std::chrono::steady_clock::now() >= end;
    if (!is_ok && !is_late && interrupt.Wait(kWaitInterval)) continue;
    if (!status) {
      (void)Ask(session, "GET", kTarget, /*print_json=*/false);  // says what is wrong
    } else if (session.json) {
      fmt::print("{}\n", io::JsonWriter().Value(*status).Text());
    } else {
      Print(session, options, *status);
    }
    if (is_ok) return;
    session.exit_code = 1;
    if (status && !session.json) {
      ReportError(is_late ? fmt::format("the health is not ok after {:g} s (the reasons are above)",
                                        options.timeout)
                          : "interrupted before the health was ok",
                  1);
    }
    return;
  }
}

}  // namespace

void AddStatus(CLI::App& app, const SessionPtr& session) {
  CLI::App* command = AddCommand(app, session, "status",
                                 "Show the fabric's health with its reasons, and a summary");
  const auto options = std::make_shared<StatusOptions>();
  command->add_flag("--verbose,-v", options->is_verbose, "Show all figures, zeros too");
  CLI::Option* wait =
      command->add_flag("--wait", options->waits,
                        "Wait until the health is ok; the exit code is 1 if it is not in time");
  command->add_option("--timeout", options->timeout, "Longest time to wait")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6))
      ->needs(wait);
  command->footer("Examples:\n  espalier status --wait --timeout 60 && ./start-training");
  command->callback([session, options] {
    if (options->waits) return WaitUntilOk(*session, *options);
    const auto status = Ask(*session, "GET", kTarget);
    if (status && !session->json) Print(*session, *options, *status);
  });
}

}  // namespace espalier::cli
