#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/event_loop.h"

namespace espalier::controller {

// The work on a list in one turn of the loop, in items of common size.
inline constexpr std::size_t kListItemsPerTurn = 256;

using ListDone = std::function<void(Result<std::string>)>;

// One item of a list.
struct Item {
  std::string name;  // the `after` of a page that begins behind it
  std::string json;
  std::size_t array = 0;  // index into Items::Arrays
  std::size_t work = 1;   // to write it, in items of common size
};

// Iterates over the items of a list. Items may appear or disappear between two turns.
class Items {
 public:
  virtual ~Items() = default;
  // The names of the arrays that hold the items, in the order of the items.
  virtual std::vector<std::string_view> Arrays() const = 0;
  // Prepares the first item with the work of one turn. False: call it again in another turn.
  virtual bool Prepare() { return true; }
  // Further fields before the arrays, `"name":value,` each. Called after Prepare.
  virtual std::string Head() { return ""; }
  // The next item; none at the end.
  virtual std::optional<Item> Next() = 0;
  // Further fields behind the arrays, `,"name":value` each, after so many items.
  virtual std::string Tail(std::size_t /*written*/) { return ""; }
};

// Writes a list as a JSON object over as many turns of the loop as it takes; the first turn runs
// inside the call. If the limit ends the list early, its field "next" is the name of its last item.
void WriteList(EventLoop& loop, std::unique_ptr<Items> items, std::optional<std::size_t> limit,
               ListDone done);

}  // namespace espalier::controller
