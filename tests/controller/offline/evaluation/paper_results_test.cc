#include "controller/offline/evaluation/paper_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace espalier::offline {
namespace {

using testing::HasSubstr;
using testing::Not;

SchemeRun MakeRun(const Scheme& scheme, double seconds, double load) {
  SchemeRun run{.scheme = scheme, .assignment_seconds = {seconds / 1e6}};
  run.outcome.max_link_load = load;
  run.outcome.jobs = {{.allreduce_seconds = seconds}};
  return run;
}

// One job under some schemes; ecmp with four seeds that are not in the order of their times.
ScenarioResult MakeScenario() {
  ScenarioResult scenario{1, 8, 4, {{.id = "J", .model = "BLOOM"}}, {}};
  scenario.runs.push_back(MakeRun({Algorithm::kIdeal, 1, 0}, 1, 9));
  scenario.runs.push_back(MakeRun({Algorithm::kOptimal, 1, 0}, 2, 3));
  scenario.runs.push_back(MakeRun({Algorithm::kOptimal, 4, 0}, 1.5, 0.25));
  for (const double seconds : {5.0, 3.0, 7.0, 4.0}) {
    const auto seed = static_cast<std::uint64_t>(seconds);
    scenario.runs.push_back(MakeRun({Algorithm::kEcmp, 1, seed}, seconds, seconds));
  }
  return scenario;
}

// The cells of the line that begins with this text.
std::vector<std::string> CellsOf(const std::string& table, const std::string& begin) {
  const std::size_t at = table.find("| " + begin);
  EXPECT_NE(at, std::string::npos) << begin;
  std::vector<std::string> cells;
  const std::string line = table.substr(at, table.find('\n', at) - at);
  for (std::size_t from = 1; from < line.size();) {
    const std::size_t to = line.find('|', from);
    std::string cell = line.substr(from, to - from);
    while (cell.starts_with(' ')) cell.erase(0, 1);
    while (cell.ends_with(' ')) cell.pop_back();
    cells.push_back(cell);
    from = to + 1;
  }
  return cells;
}

TEST(PaperResults, EveryColumnIsAnotherScheme) {
  for (const bool with_ilp : {false, true}) {
    const auto columns = TableColumns(with_ilp);
    std::set<std::pair<Algorithm, std::uint32_t>> schemes;
    for (const SchemeColumn& column : columns) schemes.emplace(column.algorithm, column.split);
    EXPECT_EQ(schemes.size(), columns.size());
    EXPECT_EQ(schemes.contains({Algorithm::kIlp, 1}), with_ilp);
  }
}

TEST(PaperResults, FindsTheRunsOfAColumnBySchemeAndSplit) {
  const ScenarioResult scenario = MakeScenario();
  EXPECT_EQ(RunsOf(scenario, {"", Algorithm::kOptimal, 4}),
            std::vector<const SchemeRun*>{&scenario.runs[2]});
  EXPECT_EQ(RunsOf(scenario, {"", Algorithm::kEcmp, 1}).size(), 4U);
  EXPECT_TRUE(RunsOf(scenario, {"", Algorithm::kEcmp, 2}).empty());
}

TEST(PaperResults, ShowsOneTimeOrTheSpreadOfTheSeeds) {
  const std::string tables = FormatQualityTables({MakeScenario()}, false);
  const auto cells = CellsOf(tables, "1 job, ring 8, 4 failed: BLOOM");
  const std::vector<std::string> expected = {
      "1 job, ring 8, 4 failed: BLOOM", "1.0000", "-", "2.0000", "-", "1.5000", "-",
      "3.000 / 4.000 / 7.000",          "-"};
  EXPECT_EQ(cells, expected);
  EXPECT_EQ(CellsOf(tables, "scenario, model").size(), cells.size());
}

TEST(PaperResults, ShowsTheWorstLoadAndTheTypicalTime) {
  const std::string tables = FormatQualityTables({MakeScenario()}, true);
  const std::string loads = tables.substr(tables.find("## Maximum link load"));
  const auto cells = CellsOf(loads, "1 job, ring 8, 4 failed");
  const std::vector<std::string> expected = {
      "1 job, ring 8, 4 failed", "", "-", "3; 2", "-", "0.25; 2", "-", "7; 5", "-", "-"};
  EXPECT_EQ(cells, expected);
  ScenarioResult two = MakeScenario();
  two.concurrent_jobs = 2;
  EXPECT_THAT(FormatQualityTables({two}, false), HasSubstr("2 jobs, ring 8"));
}

TEST(PaperResults, TheFileHasEveryRunOfEveryScenario) {
  ScenarioResult other = MakeScenario();
  other.failed_spines = 8;
  const std::string text = FormatResultsJson({MakeScenario(), other});
  const auto count = [&](const std::string& what) {
    int found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("\"failed_spines\""), 2);
  EXPECT_EQ(count("\"algorithm\""), 14);
  EXPECT_EQ(count("\"ecmp\""), 8);
  EXPECT_THAT(text, Not(HasSubstr("epoch_seconds")));
}

}  // namespace
}  // namespace espalier::offline
