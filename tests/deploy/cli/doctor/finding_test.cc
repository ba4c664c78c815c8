#include "deploy/cli/doctor/finding.h"

#include <gtest/gtest.h>

#include "common/files/json.h"

namespace espalier::doctor {
namespace {

Findings Some() {
  Findings findings;
  findings.Begin("host", "mtu");
  findings.Ok("eth0", "9000 bytes");
  findings.Warn("eth1", "1500 \x1b[2J bytes", "raise it");
  findings.Begin("controller", "health");
  findings.Fail("", "h0 has no path", "look");
  findings.Skip("", "no answer");
  return findings;
}

TEST(Findings, AreATableWithTheRemediesBelow) {
  EXPECT_EQ(FormatText(Some(), false),
            "PLACE       CHECK   SUBJECT  STATE    FOUND\n"
            "host        mtu     eth0     ok       9000 bytes\n"
            "host        mtu     eth1     warning  1500 \\x1b[2J bytes\n"
            "controller  health  -        failed   h0 has no path\n"
            "controller  health  -        skipped  no answer\n"
            "\nWhat to do:\n"
            "  mtu eth1: raise it\n"
            "  health: look\n"
            "\n1 ok, 1 warning, 1 failed, 1 skipped\n");
  EXPECT_NE(FormatText(Some(), true).find("\x1b[31mfailed\x1b[0m"), std::string::npos);
}

TEST(Findings, CutTextsThatOthersWroteTooLong) {
  Findings findings;
  findings.Ok("", std::string(100'000, 'x'));
  EXPECT_EQ(findings.all()[0].found.size(), 1'003U);
}

TEST(Findings, AreOneJsonObjectWithEveryField) {
  const auto json = io::ParseJson(FormatJson(Some()), "findings");
  ASSERT_TRUE(json.has_value());
  ASSERT_EQ(json->Find("checks")->items.size(), 4U);
  for (const io::JsonValue& check : json->Find("checks")->items) {
    for (const char* const key : {"place", "check", "subject", "state", "found", "remedy"}) {
      EXPECT_NE(check.Find(key), nullptr) << key;
    }
  }
  for (const char* const state : {"ok", "warning", "failed", "skipped"}) {
    EXPECT_EQ(json->Find(state)->text, "1") << state;
  }
}

}  // namespace
}  // namespace espalier::doctor
