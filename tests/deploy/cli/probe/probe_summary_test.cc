#include "deploy/cli/probe/probe_summary.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::cli {
namespace {

std::string Port(const std::string& state, const std::string& via, const std::string& silent_from,
                 const std::string& known_via = "") {
  const std::string links = via.empty() ? "" : "\"leaf0--" + via + "\", \"leaf3--" + via + "\"";
  return R"({"state": ")" + state + R"(", "via": ")" + via + R"(", "silent_from": ")" +
         silent_from + R"(", "known_via": ")" + known_via + R"(", "links": [)" + links + "]}";
}

io::JsonValue Answer(const std::string& ports) {
  return *io::ParseJson("{\"ports\": [" + ports + "]}", "answer");
}

const io::JsonValue& Lossy() {
  static const io::JsonValue answer =
      Answer(Port("COMPLETE", "spine0", "") + "," + Port("COMPLETE", "spine2", "") + "," +
             Port("PARTIAL", "spine2", "leaf3--spine2>leaf3") + "," +
             Port("PARTIAL", "spine2", "leaf3--spine2>leaf3") + "," + Port("SILENT", "", "") + "," +
             Port("SILENT", "", "", "spine0"));
  return answer;
}

TEST(ProbeSummary, CountsAnswersByPathAndNamesWhereTheyEnd) {
  EXPECT_EQ(DescribeProbe(SummarizeProbe(Lossy())),
            "spine0: 1 of 2 answered\n"
            "spine2: 1 of 3 answered, lost behind leaf3--spine2>leaf3\n"
            "path not known: 0 of 1 answered\n");
}

TEST(ProbeSummary, SaysThatAllAnswered) {
  const auto sound = Answer(Port("COMPLETE", "spine0", "") + "," + Port("COMPLETE", "spine0", ""));
  EXPECT_EQ(DescribeProbe(SummarizeProbe(sound)), "spine0: all 2 answered\n");
  EXPECT_EQ(DescribeProbe(SummarizeProbe(Answer(""))), "");
}

TEST(ProbeSummary, NamesSeveralPlacesWithTheirCounts) {
  const auto answer = Answer(Port("PARTIAL", "spine2", "leaf0--spine2>spine2") + "," +
                             Port("PARTIAL", "spine2", "leaf3--spine2>leaf3"));
  EXPECT_EQ(DescribeProbe(SummarizeProbe(answer)),
            "spine2: 0 of 2 answered, lost behind leaf0--spine2>spine2 (1), leaf3--spine2>leaf3 "
            "(1)\n");
}

TEST(SweepCounts, CountTheDirectionsThatProbesCross) {
  const auto links = io::ParseJson(
      R"({"links": [{"id": "leaf0--spine0", "a": "leaf0", "b": "spine0"},
                    {"id": "leaf3--spine0", "a": "leaf3", "b": "spine0"},
                    {"id": "leaf0--spine2", "a": "leaf0", "b": "spine2"},
                    {"id": "leaf3--spine2", "a": "leaf3", "b": "spine2"}]})",
      "links");
  SweepCounts counts(links->Find("links")->items);
  EXPECT_EQ(counts.Add(Lossy(), "leaf0"), 2U);
  EXPECT_EQ(counts.sent(), 6U);
  EXPECT_EQ(counts.silent(), 2U);
  const auto suspects = counts.Suspects();
  ASSERT_EQ(suspects.size(), 1U);  // what lies before the loss answered
  EXPECT_EQ(suspects[0].name, "leaf3--spine2>leaf3");
  EXPECT_EQ(suspects[0].sent, 3U);
  EXPECT_EQ(suspects[0].answered, 1U);
}

}  // namespace
}  // namespace espalier::cli
