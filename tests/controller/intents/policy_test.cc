// Policies as text.
#include "controller/intents/policy.h"

#include <gtest/gtest.h>

#include <limits>
#include <string_view>
#include <vector>

namespace espalier::controller {
namespace {

TEST(PolicyText, IsReadAsItIsWrittenUpToTheEndsOfItsRange) {
  struct Case {
    std::string_view name;
    std::string_view text;
    PolicyValue value;
  };
  for (const auto& [name, text, value] :
       std::vector<Case>{{"algorithm", "optimal", Algorithm::kOptimal},
                         {"algorithm", "greedy", Algorithm::kGreedy},
                         {"limit_rates", "true", RateLimits::kOn},
                         {"plan_ahead", "false", false},
                         {"shares", "equal", Shares::kEqual},
                         {"moves_per_start", "0", 0},
                         {"moves_per_start", "4294967295", 4'294'967'295},
                         {"moved_bytes_per_start", "0", 0},
                         {"moved_bytes_per_start", "9223372036854775807",
                          std::numeric_limits<std::int64_t>::max()}}) {
    const Result<PolicyValue> read = ParsePolicy(name, text);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, value) << name;
    EXPECT_EQ(FormatPolicy(value), text);
  }
}

TEST(PolicyText, ErrorsListValidValues) {
  struct Case {
    std::string_view name;
    std::string_view text;
    std::string_view message;
  };
  for (const auto& [name, text, message] : std::vector<Case>{
           {"algorithm", "best", "algorithm: invalid value \"best\" (give optimal or greedy)"},
           {"limit_rates", "1", "limit_rates: invalid value \"1\" (give true, false or automatic)"},
           {"plan_ahead", "True", "plan_ahead: invalid value \"True\" (give true or false)"},
           {"shares", "1/4", "shares: invalid value \"1/4\" (give equal or exact)"},
           {"moves_per_start", "-1",
            "moves_per_start: invalid value \"-1\" (give a number of flows, 0 or more)"},
           {"moves_per_start", "4294967296",
            "moves_per_start: invalid value \"4294967296\" (give a number of flows, 0 or more)"},
           {"moves_per_start", "",
            "moves_per_start: invalid value \"\" (give a number of flows, 0 or more)"},
           {"moved_bytes_per_start", "-1",
            "moved_bytes_per_start: invalid value \"-1\" (give a number of bytes, 0 or more)"},
           {"moved_bytes_per_start", "8 MB",
            "moved_bytes_per_start: invalid value \"8 MB\" (give a number of bytes, 0 or more)"}}) {
    const Result<PolicyValue> refused = ParsePolicy(name, text);
    ASSERT_FALSE(refused) << message;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().message, message);
  }
}

TEST(PolicyText, ErrorsListThePolicies) {
  const Result<PolicyValue> refused = ParsePolicy("lease", "1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(refused.error().message,
            "there is no policy \"lease\" (choose one of: algorithm, moves_per_start, "
            "moved_bytes_per_start, limit_rates, plan_ahead, shares)");
}

}  // namespace
}  // namespace espalier::controller
