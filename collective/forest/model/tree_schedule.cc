#include "collective/forest/model/tree_schedule.h"

#include <numeric>

#include "common/base/check.h"
#include "common/base/enum_names.h"

namespace espalier::forest {
namespace {

constexpr EnumNames<Collective> kNames(
    {
        {Collective::kAllgather, "allgather"},
        {Collective::kReduceScatter, "reduce-scatter"},
        {Collective::kAllreduce, "allreduce"},
        {Collective::kBroadcast, "broadcast"},
        {Collective::kReduce, "reduce"},
    },
    "");

}  // namespace

std::string_view CollectiveName(Collective collective) { return kNames.NameOf(collective); }
std::optional<Collective> FindCollective(std::string_view name) { return kNames.Find(name); }

bool GoesUp(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kReduce ||
         collective == Collective::kAllreduce;
}

bool GoesDown(Collective collective) {
  return !GoesUp(collective) || collective == Collective::kAllreduce;
}

bool HasRoot(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce;
}

std::int64_t TreeSchedule::TotalWeight() const {
  return std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
}

Rational TreeSchedule::AlgorithmGbps(const Rational& of_inverse_rate) const {
  const Rational data(TotalWeight(), collective == Collective::kAllreduce ? 2 : 1);
  const std::optional<Rational> rate = Rational::Quotient(data, of_inverse_rate);
  ESPALIER_CHECK(rate.has_value(), "weight={} inverse_rate={}", TotalWeight(),
                 of_inverse_rate.ToString());
  return *rate;
}

Rational TreeSchedule::FractionOfBound() const {
  const std::optional<Rational> fraction = Rational::Quotient(bound_inverse_rate, inverse_rate);
  ESPALIER_CHECK(fraction.has_value(), "bound={} attained={}", bound_inverse_rate.ToString(),
                 inverse_rate.ToString());
  return *fraction;
}

}  // namespace espalier::forest
