#include "controller/discovery/probe_evidence.h"

#include <gtest/gtest.h>

namespace espalier::discovery {
namespace {

IpAddress Ip(const char* text) { return IpAddress::Parse(text).value(); }

class ProbeEvidenceOfTwo : public testing::Test {
 protected:
  ProbeEvidenceOfTwo() {
    a_ = evidence_.AddEndpoint({"h0", "eth0", Ip("10.0.0.1")}).value();
    b_ = evidence_.AddEndpoint({"h1", "eth0", Ip("10.0.0.3")}).value();
  }

  ProbeEvidence evidence_;
  EndpointIndex a_ = 0;
  EndpointIndex b_ = 0;
};

TEST_F(ProbeEvidenceOfTwo, RecordsOneAnswerToEachProbe) {
  EXPECT_TRUE(evidence_.Ask(a_, b_, 50'000, 1));
  EXPECT_TRUE(evidence_.Answer(a_, b_, 50'000, 1, Ip("10.0.0.0")));
  EXPECT_FALSE(evidence_.Answer(a_, b_, 50'000, 1, Ip("10.0.0.9"))) << "a second answer";
  EXPECT_FALSE(evidence_.Ask(a_, b_, 50'000, 1)) << "it is answered";
  ASSERT_EQ(evidence_.traces().size(), 1U);
  EXPECT_EQ(evidence_.traces()[0].responders[0], Ip("10.0.0.0"));
  EXPECT_EQ(evidence_.answers(), 1U);
  EXPECT_EQ(evidence_.refused(), 1U);
}

TEST_F(ProbeEvidenceOfTwo, RefusesWhatNobodyAskedFor) {
  evidence_.Ask(a_, b_, 50'000, 2);
  EXPECT_FALSE(evidence_.Answer(a_, b_, 50'000, 1, Ip("10.0.0.0"))) << "another TTL";
  EXPECT_FALSE(evidence_.Answer(a_, b_, 50'001, 2, Ip("10.0.0.0"))) << "another port";
  EXPECT_FALSE(evidence_.Answer(b_, a_, 50'000, 2, Ip("10.0.0.0"))) << "another source";
  EXPECT_FALSE(evidence_.Answer(a_, b_, 50'000, 0, Ip("10.0.0.0")));
  EXPECT_FALSE(evidence_.Answer(a_, b_, 50'000, 255, Ip("10.0.0.0")));
  EXPECT_FALSE(evidence_.Ask(a_, b_, 50'000, 0));
  EXPECT_FALSE(evidence_.Ask(a_, b_, 50'000, kMostHops + 1));
  for (const char* no_host :
       {"0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "ff02::1"}) {
    EXPECT_FALSE(evidence_.Answer(a_, b_, 50'000, 2, Ip(no_host))) << no_host;
  }
  EXPECT_EQ(evidence_.answers(), 0U);
}

TEST_F(ProbeEvidenceOfTwo, RefusesAnAddressOfTwoHostsAndNamesBoth) {
  EXPECT_EQ(evidence_.AddEndpoint({"h1", "eth0", Ip("10.0.0.3")}).value(), b_) << "again";
  const auto twice = evidence_.AddEndpoint({"h2", "eth0", Ip("10.0.0.3")});
  ASSERT_FALSE(twice.has_value());
  EXPECT_NE(twice.error().message.find("h1 and h2 both report the address 10.0.0.3"),
            std::string::npos)
      << twice.error().message;
  EXPECT_FALSE(evidence_.AddEndpoint({"h2", "lo", Ip("127.0.0.1")}).has_value());
  EXPECT_EQ(evidence_.endpoints().size(), 2U);
}

}  // namespace
}  // namespace espalier::discovery
