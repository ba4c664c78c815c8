// control_loop_bench: measures the control loop over real ZeroMQ connections, compared with a bare
// socket loop in the same run. docs/benchmarks.md has figures and explains them.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/files/json_writer.h"
#include "tests/bench/control_loop_load.h"
#include "tests/bench/control_loop_subject.h"
#include "tests/bench/reconnect_storm.h"

namespace espalier::bench {
namespace {

struct Options {
  LoadOptions load;
  double rate = 10'000;
  double seconds = 10;
  std::int64_t messages = 200'000;
  int rounds = 3;
  int processes = 0;
  std::vector<std::string> subjects{"bare", "bus", "controller"};
  bool json = false;
};

struct Figures {
  double connect_seconds = 0;
  double reconnect_seconds = 0;
  double resident_mib = 0;
  double kib_per_agent = 0;  // added by the agents' connections and flows
  double flow_reports_per_second = 0;
  double one_way_cpu_us = 0;       // of the subject, per message
  double one_way_loop_cpu_us = 0;  // part of it in the loop's thread
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double cpu_us = 0;       // of the subject, per request with its push and acknowledgement
  double loop_cpu_us = 0;  // part of it in the loop's thread
  double requests = 0;
  double skipped = 0;
};

struct Column {
  const char* key;  // in JSON
  const char* head;
  const char* unit;
  int decimals;
  double shown_in;  // factor from the value's unit
  double Figures::*value;
};

constexpr Column kColumns[] = {
    {"connect_seconds", "connect", "s", 2, 1, &Figures::connect_seconds},
    {"reconnect_seconds", "reconnect", "s", 2, 1, &Figures::reconnect_seconds},
    {"resident_mib", "resident", "MiB", 1, 1, &Figures::resident_mib},
    {"kib_per_agent", "per agent", "KiB", 1, 1, &Figures::kib_per_agent},
    {"flow_reports_per_second", "one-way", "Mflows/s", 2, 1e6, &Figures::flow_reports_per_second},
    {"one_way_cpu_us", "CPU", "us/msg", 2, 1, &Figures::one_way_cpu_us},
    {"one_way_loop_cpu_us", "loop", "us/msg", 2, 1, &Figures::one_way_loop_cpu_us},
    {"p50_us", "p50", "us", 0, 1, &Figures::p50_us},
    {"p99_us", "p99", "us", 0, 1, &Figures::p99_us},
    {"p999_us", "p99.9", "us", 0, 1, &Figures::p999_us},
    {"cpu_us_per_request", "CPU", "us/req", 1, 1, &Figures::cpu_us},
    {"loop_cpu_us_per_request", "loop", "us/req", 1, 1, &Figures::loop_cpu_us},
    {"requests", "requests", "", 0, 1, &Figures::requests},
    {"skipped", "skipped", "", 0, 1, &Figures::skipped},
};

double PercentileUs(const std::vector<double>& sorted_seconds, double percent) {
  if (sorted_seconds.empty()) return 0;
  const auto rank =
      static_cast<std::size_t>(percent / 100 * static_cast<double>(sorted_seconds.size()));
  return 1e6 * sorted_seconds[std::min(rank, sorted_seconds.size() - 1)];
}

Figures Measure(const std::string& name, const Options& options) {
  Figures figures;
  const SubjectProcess subject(name, options.load.agents);
  if (options.processes > 0) {
    const StormFigures storm = MeasureStorm(subject, options.load, options.processes);
    figures.connect_seconds = storm.connect_seconds;
    figures.reconnect_seconds = storm.reconnect_seconds;
    figures.resident_mib = storm.resident_mib;
    figures.kib_per_agent = storm.kib_per_agent;
    return figures;
  }
  Load load(options.load, subject.endpoint(),
            [&subject](int agent) { return subject.KeysOf(agent); });
  const double alone_mib = subject.Measure().resident_mib;
  figures.connect_seconds = load.Connect();
  load.Settle();
  figures.resident_mib = subject.Measure().resident_mib;
  figures.kib_per_agent = 1024 * (figures.resident_mib - alone_mib) / options.load.agents;

  load.RequestReply(options.rate,
                    options.seconds / 4);  // lets the controller learn ports for new flows
  load.Settle();
  const auto before = subject.Measure();
  const Load::Latencies latencies = load.RequestReply(options.rate, options.seconds);
  const auto after = subject.Measure();
  figures.requests = static_cast<double>(latencies.seconds.size());
  figures.skipped = static_cast<double>(latencies.skipped);
  const double each = 1e6 / std::max(figures.requests, 1.0);
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
  figures.reconnect_seconds = load.Reconnect();
  return figures;
}

// The median of each figure, so that one round on a busy machine does not count.
Figures MedianOf(const std::vector<Figures>& rounds) {
  Figures median;
  for (const Column& column : kColumns) {
    std::vector<double> values;
    for (const Figures& round : rounds) values.push_back(round.*column.value);
    std::sort(values.begin(), values.end());
    median.*column.value = values[values.size() / 2];
  }
  return median;
}

void PrintTable(const Options& options, const std::vector<Figures>& all) {
  fmt::print(
      "{} agents, {} flows each; requests at {:.0f}/s for {} s; {} one-way messages of {} "
      "flows; medians of {} rounds\n\n{:<11}",
      options.load.agents, options.load.flows, options.rate, options.seconds, options.messages,
      options.load.update_flows, options.rounds, "subject");
  for (const Column& column : kColumns) fmt::print("{:>10}", column.head);
  fmt::print("\n{:<11}", "");
  for (const Column& column : kColumns) fmt::print("{:>10}", column.unit);
  fmt::print("\n");
  for (std::size_t i = 0; i < all.size(); ++i) {
    fmt::print("{:<11}", options.subjects[i]);
    for (const Column& column : kColumns) {
      fmt::print("{:>10.{}f}", all[i].*column.value / column.shown_in, column.decimals);
    }
    fmt::print("\n");
  }
  if (all.size() < 2 || options.processes > 0) return;
  const Figures& first = all.front();
  const Figures& last = all.back();
  fmt::print(
      "\n{} against {}: p50 {:.2f}x, p99 {:.2f}x, CPU per request {:.2f}x, one-way {:.2f}x\n",
      options.subjects.back(), options.subjects.front(), last.p50_us / first.p50_us,
      last.p99_us / first.p99_us, last.cpu_us / first.cpu_us,
      last.flow_reports_per_second / first.flow_reports_per_second);
}

void PrintJson(const Options& options, const std::vector<Figures>& all) {
  io::JsonWriter json(true);
  json.BeginObject();
  json.Key("agents").Integer(options.load.agents);
  json.Key("flows_per_agent").Integer(options.load.flows);
  json.Key("flows_per_update").Integer(options.load.update_flows);
  json.Key("requests_per_second").Double(options.rate);
  json.Key("rounds").Integer(options.rounds);
  json.Key("subjects").BeginArray();
  for (std::size_t i = 0; i < all.size(); ++i) {
    json.BeginObject();
    json.Key("name").String(options.subjects[i]);
    for (const Column& column : kColumns) json.Key(column.key).Double(all[i].*column.value);
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
  CLI::App app("Measure the control loop over ZeroMQ on the loopback interface.");
  Options options;
  std::string serve;
  app.add_option("--agents", options.load.agents, "Agents")->check(CLI::Range(1, 4096));
  app.add_option("--flows", options.load.flows, "Open flows of each agent")
      ->check(CLI::Range(1, 64));
  app.add_option("--rate", options.rate, "Requests per second")->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "Seconds of requests")->check(CLI::PositiveNumber);
  app.add_option("--messages", options.messages, "Number of one-way messages")
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds, "Number of rounds; medians are shown")
      ->check(CLI::Range(1, 100));
  app.add_option("--subjects", options.subjects,
                 "Subjects among bare, bus, controller, bus+curve, controller+curve")
      ->delimiter(',');
  app.add_option("--processes", options.processes,
                 "Only connect and reconnect, with the agents in this number of processes")
      ->check(CLI::Range(1, 64));
  app.add_flag("--json", options.json, "Print JSON instead of a table");
  app.add_option("--serve", serve, "Run this subject (used by the benchmark itself)");
  CLI11_PARSE(app, argc, argv);
  RaiseFileLimit();
  if (!serve.empty()) return ServeSubject(serve, options.load.agents) ? 0 : 2;
  std::vector<std::vector<Figures>> rounds(options.subjects.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      rounds[i].push_back(Measure(options.subjects[i], options));
    }
  }
  std::vector<Figures> all;
  for (const auto& subject : rounds) all.push_back(MedianOf(subject));
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
