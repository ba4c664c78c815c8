#include "common/http/connection_places.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <vector>

namespace espalier::io {
namespace {

constexpr Duration kSlow = std::chrono::milliseconds(500);

bool IsReserve(const Connection& one) { return one.is_reserve; }
bool IsNormal(const Connection& one) { return !one.is_reserve; }
bool IsAny(const Connection&) { return true; }
bool HasAsked(const Connection& one) { return !one.is_new; }

}  // namespace

template <typename IsMeant>
std::size_t ConnectionPlaces::Count(const IsMeant& is_meant) const {
  return static_cast<std::size_t>(std::count_if(
      all_.begin(), all_.end(), [&](const Connection* one) { return is_meant(*one); }));
}

ConnectionPlaces::Place ConnectionPlaces::MakeRoom(const std::string& source, TimePoint now) {
  if (FindPlace(source, now, IsAny)) return Place::kNormal;
  const bool has_reserve = Count(IsReserve) < limits_.reserve || CloseOne(IsReserve, now);
  return has_reserve ? Place::kReserve : Place::kNone;
}

bool ConnectionPlaces::LeaveReserve(Connection& connection, TimePoint now) {
  connection.is_reserve = !FindPlace(connection.source, now, HasAsked);
  return !connection.is_reserve;
}

template <typename MayGo>
bool ConnectionPlaces::FindPlace(const std::string& source, TimePoint now, const MayGo& may_go) {
  const auto is_rival = [&](const Connection& one) {
    return !one.is_reserve && !one.is_known && one.source == source;
  };
  const auto may_give_way = [&](const Connection& one) { return is_rival(one) && may_go(one); };
  const bool is_within_source = source.empty() || Count(is_rival) < limits_.strangers_of_source ||
                                CloseOne(may_give_way, now);
  const auto may_leave = [&](const Connection& one) { return IsNormal(one) && may_go(one); };
  return is_within_source && (Count(IsNormal) < limits_.connections || CloseOne(may_leave, now));
}

template <typename IsMeant>
bool ConnectionPlaces::CloseOne(const IsMeant& is_meant, TimePoint now) {
  // Those that wait come first, and of these strangers.
  const auto rank = [](const Connection& one) {
    return std::tuple(!one.waits_since, one.is_known && one.waits_since,
                      one.waits_since.value_or(0), one.writes_until.value_or(TimePoint::max()));
  };
  Connection* first = nullptr;
  for (Connection* one : all_) {
    const bool may_close =
        one->waits_since ||
        (one->writes_until && *one->writes_until <= now + limits_.allowance - kSlow);
    if (!may_close || !is_meant(*one)) continue;
    if (first == nullptr || rank(*one) < rank(*first)) first = one;
  }
  if (first == nullptr) return false;
  all_.erase(first);  // at once, although its last handler may run later
  first->Close();
  return true;
}

void ConnectionPlaces::CloseAll() {
  const std::vector<Connection*> open(all_.begin(), all_.end());
  all_.clear();
  for (Connection* one : open) one->Close();
}

void ConnectionPlaces::BeginWrite(Connection& connection, TimePoint now) const {
  connection.writes_until = now + limits_.allowance;
}

void ConnectionPlaces::CountWritten(Connection& connection, std::size_t bytes,
                                    TimePoint now) const {
  const auto earned = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / limits_.min_bytes_per_second));
  connection.writes_until =
      std::min(now + limits_.allowance, connection.writes_until.value_or(now) + earned);
}

}  // namespace espalier::io
