#include "controller/routing/shares.h"

#include "common/base/enum_names.h"

namespace espalier::controller {
namespace {

constexpr EnumNames<Shares> kNames({
    {Shares::kEqual, "equal"},
    {Shares::kExact, "exact"},
});

}  // namespace

std::string_view SharesName(Shares shares) { return kNames.NameOf(shares); }

std::optional<Shares> FindShares(std::string_view name) { return kNames.Find(name); }

}  // namespace espalier::controller
