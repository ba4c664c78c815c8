// control_loop_bench: how fast the control loop is over real ZeroMQ connections, beside a bare
// socket loop that is measured in the same run. Figures and how to read them: docs/benchmarks.md.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/io/json.h"
#include "tests/bench/control_loop_load.h"
#include "tests/bench/control_loop_subject.h"

namespace espalier::bench {
namespace {

struct Options {
  LoadOptions load;
  double rate = 10'000;
  double seconds = 10;
  std::int64_t messages = 200'000;
  std::vector<std::string> subjects{"bare", "bus", "controller"};
  bool json = false;
};

struct Figures {
  std::string subject;
  double connect_seconds = 0;
  double resident_mib = 0;
  double flow_reports_per_second = 0;
  double one_way_cpu_us = 0;       // of the subject, a message
  double one_way_loop_cpu_us = 0;  // of that, in the loop's thread
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double cpu_us = 0;       // of the subject, a request with its push and acknowledgement
  double loop_cpu_us = 0;  // of that, in the loop's thread
  std::int64_t requests = 0;
  std::int64_t skipped = 0;
};

double PercentileUs(const std::vector<double>& sorted_seconds, double percent) {
  if (sorted_seconds.empty()) return 0;
  const auto rank =
      static_cast<std::size_t>(percent / 100 * static_cast<double>(sorted_seconds.size()));
  return 1e6 * sorted_seconds[std::min(rank, sorted_seconds.size() - 1)];
}

Figures Measure(const std::string& name, const Options& options) {
  Figures figures;
  figures.subject = name;
  const SubjectProcess subject(name, options.load.agents);
  Load load(options.load, subject.endpoint());
  figures.connect_seconds = load.Connect();
  load.Settle();
  figures.resident_mib = subject.Measure().resident_mib;

  load.RequestReply(options.rate, options.seconds / 4);  // ports of new flows become known
  load.Settle();
  const auto before = subject.Measure();
  const Load::Latencies latencies = load.RequestReply(options.rate, options.seconds);
  const auto after = subject.Measure();
  figures.requests = static_cast<std::int64_t>(latencies.seconds.size());
  figures.skipped = static_cast<std::int64_t>(latencies.skipped);
  const double each = 1e6 / static_cast<double>(std::max<std::int64_t>(figures.requests, 1));
  figures.cpu_us = each * (after.cpu_seconds - before.cpu_seconds);
  figures.loop_cpu_us = each * (after.loop_seconds - before.loop_seconds);
  figures.p50_us = PercentileUs(latencies.seconds, 50);
  figures.p99_us = PercentileUs(latencies.seconds, 99);
  figures.p999_us = PercentileUs(latencies.seconds, 99.9);

  load.PrepareOneWay();
  load.Settle();
  const auto idle = subject.Measure();
  const double seconds = load.OneWay(options.messages);
  const auto done = subject.Measure();
  const double messages = static_cast<double>(options.messages);
  figures.flow_reports_per_second = messages * options.load.update_flows / seconds;
  figures.one_way_cpu_us = 1e6 * (done.cpu_seconds - idle.cpu_seconds) / messages;
  figures.one_way_loop_cpu_us = 1e6 * (done.loop_seconds - idle.loop_seconds) / messages;
  return figures;
}

void PrintTable(const Options& options, const std::vector<Figures>& all) {
  fmt::print(
      "{} agents, {} flows each; requests at {:.0f}/s for {} s; {} one-way messages of {} "
      "flows\n\n",
      options.load.agents, options.load.flows, options.rate, options.seconds, options.messages,
      options.load.update_flows);
  constexpr auto kRow = "{:<11}{:>9}{:>10}{:>11}{:>9}{:>9}{:>10}{:>10}{:>10}{:>9}{:>9}{:>9}\n";
  fmt::print(kRow, "subject", "connect", "resident", "one-way", "CPU", "loop", "p50", "p99",
             "p99.9", "CPU", "loop", "skipped");
  fmt::print(kRow, "", "s", "MiB", "Mflows/s", "us/msg", "us/msg", "us", "us", "us", "us/req",
             "us/req", "");
  for (const Figures& f : all) {
    const auto decimals = [](double value, int places) {
      return fmt::format("{:.{}f}", value, places);
    };
    fmt::print(kRow, f.subject, decimals(f.connect_seconds, 2), decimals(f.resident_mib, 1),
               decimals(f.flow_reports_per_second / 1e6, 2), decimals(f.one_way_cpu_us, 2),
               decimals(f.one_way_loop_cpu_us, 2), decimals(f.p50_us, 0), decimals(f.p99_us, 0),
               decimals(f.p999_us, 0), decimals(f.cpu_us, 1), decimals(f.loop_cpu_us, 1),
               f.skipped);
  }
  if (all.size() < 2) return;
  const Figures& first = all.front();
  const Figures& last = all.back();
  fmt::print("\n{} against {}: p50 {:.2f}x, p99 {:.2f}x, CPU a request {:.2f}x, one-way {:.2f}x\n",
             last.subject, first.subject, last.p50_us / first.p50_us, last.p99_us / first.p99_us,
             last.cpu_us / first.cpu_us,
             last.flow_reports_per_second / first.flow_reports_per_second);
}

void PrintJson(const Options& options, const std::vector<Figures>& all) {
  io::JsonWriter json(true);
  json.BeginObject();
  json.Key("agents").Integer(options.load.agents);
  json.Key("flows_per_agent").Integer(options.load.flows);
  json.Key("flows_per_update").Integer(options.load.update_flows);
  json.Key("requests_per_second").Double(options.rate);
  json.Key("subjects").BeginArray();
  for (const Figures& f : all) {
    json.BeginObject();
    json.Key("name").String(f.subject);
    json.Key("connect_seconds").Double(f.connect_seconds);
    json.Key("resident_mib").Double(f.resident_mib);
    json.Key("flow_reports_per_second").Double(f.flow_reports_per_second);
    json.Key("one_way_cpu_us").Double(f.one_way_cpu_us);
    json.Key("one_way_loop_cpu_us").Double(f.one_way_loop_cpu_us);
    json.Key("p50_us").Double(f.p50_us);
    json.Key("p99_us").Double(f.p99_us);
    json.Key("p999_us").Double(f.p999_us);
    json.Key("cpu_us_per_request").Double(f.cpu_us);
    json.Key("loop_cpu_us_per_request").Double(f.loop_cpu_us);
    json.Key("requests").Integer(f.requests);
    json.Key("skipped").Integer(f.skipped);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  fmt::print("{}\n", json.Text());
}

void RaiseFileLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures the control loop over ZeroMQ on the loopback interface.");
  Options options;
  std::string serve;
  app.add_option("--agents", options.load.agents, "Agents")->check(CLI::Range(1, 4096));
  app.add_option("--flows", options.load.flows, "Open flows of each")->check(CLI::Range(1, 64));
  app.add_option("--rate", options.rate, "Requests a second")->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "Of requests")->check(CLI::PositiveNumber);
  app.add_option("--messages", options.messages, "One-way messages")->check(CLI::PositiveNumber);
  app.add_option("--subjects", options.subjects, "Of bare, bus, controller")->delimiter(',');
  app.add_flag("--json", options.json, "Print JSON instead of a table");
  app.add_option("--serve", serve, "Be that subject (for the benchmark itself)");
  CLI11_PARSE(app, argc, argv);
  RaiseFileLimit();
  if (!serve.empty()) return ServeSubject(serve, options.load.agents) ? 0 : 2;
  std::vector<Figures> all;
  for (const std::string& subject : options.subjects) all.push_back(Measure(subject, options));
  if (options.json) {
    PrintJson(options, all);
  } else {
    PrintTable(options, all);
  }
  return 0;
}

}  // namespace
}  // namespace espalier::bench

int main(int argc, char** argv) { return espalier::bench::Main(argc, argv); }
