#include "deploy/cli/lists/advise_command.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "common/terminal/table.h"

namespace espalier::cli {
namespace {

constexpr double kFewKnown = 0.995;
constexpr double kLittleExplained = 0.8;

double NumberOf(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* const value = object.Find(key);
  return value == nullptr ? 0 : std::strtod(value->text.c_str(), nullptr);
}

const std::string& TextOf(const io::JsonValue& object, std::string_view key) {
  static const std::string kNone;
  const io::JsonValue* const value = object.Find(key);
  return value == nullptr ? kNone : value->text;
}

const std::vector<io::JsonValue>& ItemsOf(const io::JsonValue& object, std::string_view key) {
  static const std::vector<io::JsonValue> kNone;
  const io::JsonValue* const value = object.Find(key);
  return value == nullptr ? kNone : value->items;
}

bool IsKnown(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* const value = object.Find(key);
  return value != nullptr && value->kind != io::JsonValue::Kind::kNull;
}

const io::JsonValue* SchemeOf(const io::JsonValue& job, std::string_view name) {
  for (const io::JsonValue& scheme : ItemsOf(job, "schemes")) {
    if (TextOf(scheme, "scheme") == name) return &scheme;
  }
  return nullptr;
}

std::string SchemeTitle(std::string_view name) {
  static const std::map<std::string_view, std::string> kTitles = {
      {"PRESENT", "as it is"},
      {"ECMP", "ECMP, one queue pair"},
      {"ECMP_4", "ECMP, 4 queue pairs"},
      {"ECMP_16", "ECMP, 16 queue pairs"},
      {"ROUND_TRIP_WEIGHTS", "weights by round trips"},
      {"OPTIMUM", "Espalier's paths"},
      {"ECMP_ONE_MORE_SPINE", "ECMP, one more spine"}};
  const auto found = kTitles.find(name);
  return found == kTitles.end() ? std::string(name) : found->second;
}

std::string PlacingWords(const io::JsonValue& job) {
  const std::string& placing = TextOf(job, "placing");
  if (placing == "STEERED") return "steered";
  return placing == "ECMP" ? "on plain ECMP" : "partly steered";
}

std::string Counted(double count, std::string_view noun) {
  return fmt::format("{:.0f} {}{}", count, noun, count == 1 ? "" : "s");
}

// What a reader must know before he believes the table.
std::string Reservations(const io::JsonValue& job, double draws) {
  std::string text;
  const double known = NumberOf(job, "known_paths");
  if (NumberOf(job, "crossing_flows") > 0 && known < kFewKnown) {
    text += fmt::format(
        "  The paths of {:.0f} % of the flows on ECMP are not known: they are drawn {:.0f} times; "
        "one draw in ten is below the range, and one above.\n",
        100 * (1 - known), draws);
  }
  const io::JsonValue* const present = SchemeOf(job, "PRESENT");
  const double measured = NumberOf(job, "measured_seconds");
  const double of_links = present == nullptr ? 0 : NumberOf(*present, "link_seconds");
  if (measured > 0 && of_links < kLittleExplained * measured) {
    text += fmt::format(
        "  The links explain {:.0f} % of the measured time; the rest is taken to stay.\n",
        100 * of_links / measured);
  }
  if (NumberOf(job, "crossing_flows") == 0) {
    text += "  Its flows stay within their leaves: no path is to be chosen.\n";
  }
  return text;
}

std::string SchemeTable(const io::JsonValue& job, bool colours) {
  const double measured = NumberOf(job, "measured_seconds");
  std::vector<io::JsonValue> rows;
  for (const io::JsonValue& scheme : ItemsOf(job, "schemes")) {
    const std::string title = SchemeTitle(TextOf(scheme, "scheme"));
    if (!IsKnown(scheme, "burst_seconds")) {
      rows.push_back(MakeRow({{"scheme", title}, {"burst", "unknown"}}));
      continue;
    }
    const double seconds = NumberOf(scheme, "burst_seconds");
    const double change = measured > 0 ? 100 * (seconds / measured - 1) : 0;
    rows.push_back(MakeRow({{"scheme", title},
                            {"burst", fmt::format("{:.4g} s", seconds)},
                            {"range", fmt::format("{:.4g} to {:.4g} s", NumberOf(scheme, "low"),
                                                  NumberOf(scheme, "high"))},
                            {"change", fmt::format("{:+.1f} %", change)}}));
  }
  return FormatTable(
      {{"SCHEME", "scheme"}, {"BURST", "burst"}, {"RANGE", "range"}, {"CHANGE", "change"}}, rows,
      colours);
}

std::string GpuText(const io::JsonValue& job) {
  if (!IsKnown(job, "gpus")) return "";
  const bool is_gained = IsKnown(job, "gpu_hours_gained");
  const double hours = NumberOf(job, is_gained ? "gpu_hours_gained" : "gpu_hours_to_gain");
  return fmt::format("  {:.4g} GPU-hours {} (the {} of its hosts in the topology).\n", hours,
                     is_gained ? "were gained against ECMP" : "could be gained",
                     Counted(NumberOf(job, "gpus"), "GPU"));
}

// What was predicted from plain ECMP, beside what is measured since the job is steered.
std::string Comparison(const io::JsonValue& ecmp, const io::JsonValue& steered) {
  const io::JsonValue* const optimum = SchemeOf(ecmp, "OPTIMUM");
  if (optimum == nullptr) return "";
  const double before = NumberOf(ecmp, "measured_seconds");
  const double predicted = NumberOf(*optimum, "burst_seconds");
  const double after = NumberOf(steered, "measured_seconds");
  return fmt::format(
      "  Before and after: measured {:.4g} s on ECMP, predicted {:.4g} s, measured {:.4g} s "
      "steered{}.\n",
      before, predicted, after,
      after > before ? ". The job is slower than before (`espalier steering off --job` ends it)"
                     : "");
}

}  // namespace

std::string AdviceText(const io::JsonValue& answer, bool colours) {
  std::string text;
  if (TextOf(answer, "mode") == "OBSERVE") {
    text += "The controller only observes: it steers nothing.\n";
  }
  const std::vector<io::JsonValue>& jobs = ItemsOf(answer, "jobs");
  if (jobs.empty()) {
    return text +
           "Nothing has been observed yet. A burst counts once a job has stopped sending for 50 "
           "ms.\n";
  }
  text += fmt::format("Since {}, {} were looked at.\n", TextOf(answer, "since"),
                      Counted(NumberOf(answer, "bursts"), "burst"));
  for (const io::JsonValue& job : jobs) {
    const std::string name = EscapeControls(TextOf(job, "job"));
    text += fmt::format(
        "\n{}, {}: {} of {:.4g} flows, measured {:.4g} s each (standard error {:.2g} s)",
        name.empty() ? "flows without a job" : "job " + name, PlacingWords(job),
        Counted(NumberOf(job, "bursts"), "burst"), NumberOf(job, "flows"),
        NumberOf(job, "measured_seconds"), NumberOf(job, "standard_error"));
    if (const double skipped = NumberOf(job, "skipped"); skipped > 0) {
      text += fmt::format("; {} not looked at", Counted(skipped, "more burst"));
    }
    text += "\n" + SchemeTable(job, colours) + Reservations(job, NumberOf(answer, "draws")) +
            GpuText(job);
    for (const io::JsonValue& other : jobs) {
      const bool is_before =
          TextOf(other, "job") == TextOf(job, "job") && TextOf(other, "placing") == "ECMP";
      if (is_before && TextOf(job, "placing") == "STEERED") text += Comparison(other, job);
    }
  }
  return text +
         "\nOnly what is called measured was measured. All else is inferred: a burst is taken to "
         "change by as much as its most loaded link has more or less to send.\n";
}

void AddAdvise(CLI::App& app, const SessionPtr& session) {
  CLI::App* command = AddCommand(
      app, session, "advise",
      "Compare what the bursts of each job cost with what they would cost if they were steered, "
      "or hashed over more queue pairs");
  const auto span = std::make_shared<std::string>();
  command
      ->add_option(
          "--for", *span,
          "Time before now that counts, in steps of ten minutes: 30m, 2h or 1d (default: as far "
          "as the controller remembers, at most a day)")
      ->type_name("DURATION");
  command->footer("Examples:\n  espalier advise --for 2h");
  command->callback([session, span] {
    const std::string query = span->empty() ? "" : "?for=" + UrlEncode(*span);
    const auto answer = Ask(*session, "GET", "/api/v1/advise" + query);
    if (answer && !session->json) fmt::print("{}", AdviceText(*answer, UsesColours()));
  });
}

}  // namespace espalier::cli
