// Tests the values of intents as text and back. Stores of earlier versions contain these texts.
#include "controller/intents/intent_text.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::controller {
namespace {

IntentValue Parse(IntentById Intents::*kind, const std::string& text) {
  return ParseIntentValue(kind, "train", text);
}

// Returns the text of a value that cannot be read, which is kept unchanged.
void ExpectUnreadable(IntentById Intents::*kind, const std::string& text) {
  EXPECT_EQ(Parse(kind, text), IntentValue(UnreadableValue{text}));
  EXPECT_EQ(FormatIntentValue(Parse(kind, text)), text);
}

TEST(JobText, IsReadAsItWasWritten) {
  const StartedJob job{.spec = {.name = "train",
                                .ranks = {"h 0", "h1"},
                                .collective = forest::Collective::kAllreduce,
                                .bytes = 7,
                                .offload = true},
                       .listen_ports = {4'791, 65'535}};
  EXPECT_EQ(FormatIntentValue(job), "allreduce 7 offload 4791 65535\nh 0\nh1\n");
  EXPECT_EQ(Parse(&Intents::jobs, FormatIntentValue(job)), IntentValue(job));
  EXPECT_EQ(Parse(&Intents::jobs, "allreduce 7 offload\nh 0\nh1\n"),
            IntentValue(StartedJob{job.spec, {}}));
  for (const char* text :
       {"", "allreduce\n", "allreduce x inline\nh0\n", "none 0 inline\nh0\n",
        "allreduce 0 inline 1\nh0\nh1\n", "allreduce 0 inline 1 2 3\nh0\nh1\n",
        "allreduce 0 inline 1 0\nh0\nh1\n", "allreduce 0 inline 1 65536\nh0\nh1\n",
        "allreduce 0 inline 1  2\nh0\nh1\n", "allreduce 0 inline 1 -2\nh0\nh1\n"}) {
    ExpectUnreadable(&Intents::jobs, text);
  }
}

TEST(JobText, NamesTheUser) {
  const StartedJob job{.spec = {.name = "train",
                                .ranks = {"h0", "h1"},
                                .collective = forest::Collective::kAllreduce,
                                .verbs = true,
                                .user = "alice"},
                       .listen_ports = {4'791, 4'792}};
  EXPECT_EQ(FormatIntentValue(job), "allreduce 0 inline verbs user=alice 4791 4792\nh0\nh1\n");
  EXPECT_EQ(Parse(&Intents::jobs, FormatIntentValue(job)), IntentValue(job));
  for (const char* text :
       {"allreduce 0 inline user=\nh0\nh1\n", "allreduce 0 inline user=Al\nh0\nh1\n",
        "allreduce 0 inline 1 user=alice 2\nh0\nh1\n"}) {
    ExpectUnreadable(&Intents::jobs, text);
  }
}

TEST(WeightText, IsANumber) {
  EXPECT_EQ(FormatIntentValue(JobWeight{1'000}), "1000");
  EXPECT_EQ(Parse(&Intents::weights, "1000"), IntentValue(JobWeight{1'000}));
  for (const char* text : {"", "nonsense", "-1", "2 ", "4294967296"}) {
    ExpectUnreadable(&Intents::weights, text);
  }
}

TEST(PolicyIntentText, IsParsedByTheNameOfThePolicy) {
  EXPECT_EQ(FormatIntentValue(PolicyValue(Algorithm::kGreedy)), "greedy");
  EXPECT_EQ(ParseIntentValue(&Intents::policies, "algorithm", "greedy"),
            IntentValue(Algorithm::kGreedy));
  EXPECT_EQ(ParseIntentValue(&Intents::policies, "algorithm", "best"),
            IntentValue(UnreadableValue{"best"}));
  ExpectUnreadable(&Intents::policies, "1");  // there is no such policy
}

TEST(LinkAndNodeText, IsNone) {
  for (const auto kind : {&Intents::failed_links, &Intents::failed_nodes, &Intents::drained_links,
                          &Intents::drained_nodes, &Intents::restored_links}) {
    EXPECT_EQ(Parse(kind, ""), IntentValue());
    ExpectUnreadable(kind, "of another version");
  }
  EXPECT_EQ(FormatIntentValue({}), "");
}

}  // namespace
}  // namespace espalier::controller
