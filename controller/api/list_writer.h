#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/result.h"

namespace espalier::controller {

// The work of one turn of the loop on a list, in items of common size.
inline constexpr std::size_t kListItemsPerTurn = 256;

using ListDone = std::function<void(Result<std::string>)>;

// Something of a list.
struct Item {
  std::string name;  // the `after` of what follows it
  std::string json;
  std::size_t array = 0;  // of Items::Arrays
  std::size_t work = 1;   // that it was to write, in items of common size
};

// The items of a list one after the other. Between two turns anything may begin or end.
class Items {
 public:
  virtual ~Items() = default;
  // The names of the arrays that the items are in, in the order of the items.
  virtual std::vector<std::string_view> Arrays() const = 0;
  // Gets ready for the first item, with the work of one turn. False: there is more to do.
  virtual bool Prepare() { return true; }
  // Fields of the list's own, before the items: `"name":value,` each. Once prepared.
  virtual std::string Head() { return ""; }
  // None at the end.
  virtual std::optional<Item> Next() = 0;
  // Fields of the list's own, behind the items, of which so many were written: `,"name":value`.
  virtual std::string Tail(std::size_t /*written*/) { return ""; }
};

// Writes a JSON object over as many turns of the loop as it takes, the first of them at once. Where
// the limit ends the list early, "next" is the name of the last item that is in it.
void WriteList(EventLoop& loop, std::unique_ptr<Items> items, std::optional<std::size_t> limit,
               ListDone done);

}  // namespace espalier::controller
