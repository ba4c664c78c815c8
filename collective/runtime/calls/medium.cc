#include "collective/runtime/calls/medium.h"

#include "common/base/enum_names.h"

namespace espalier::runtime {
namespace {

constexpr EnumNames<Medium> kNames({
    {Medium::kShared, "shm"},
    {Medium::kTcp, "tcp"},
    {Medium::kVerbs, "verbs"},
    {Medium::kHosts, "hosts"},
});

}  // namespace

std::string_view MediumName(Medium medium) { return kNames.NameOf(medium); }
std::optional<Medium> FindMedium(std::string_view name) { return kNames.Find(name); }

}  // namespace espalier::runtime
