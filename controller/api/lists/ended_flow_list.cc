#include "controller/api/lists/ended_flow_list.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>
#include <vector>

#include "controller/api/views/ended_flow_view.h"

namespace espalier::controller {
namespace {

class EndedItems : public Items {
 public:
  EndedItems(Controller& controller, std::uint64_t since)
      : controller_(controller), since_(since) {}

  std::vector<std::string_view> Arrays() const override { return {"flows"}; }
  std::optional<Item> Next() override {
    const auto& flows = controller_.state().ended_flows.flows();
    const auto next = std::ranges::upper_bound(flows, since_, {}, &EndedFlow::sequence);
    if (next == flows.end()) return std::nullopt;
    since_ = next->sequence;
    return Item{std::to_string(since_), EndedFlowItem(controller_, *next)};
  }

 private:
  Controller& controller_;
  std::uint64_t since_;
};

}  // namespace

void ListEndedFlows(Controller& controller, const Page& page, ListDone done) {
  std::uint64_t since = page.since;
  if (!page.after.empty()) {
    const char* const end = page.after.data() + page.after.size();
    const auto parsed = std::from_chars(page.after.data(), end, since);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      return done(Fail(ErrorCode::kInvalidArgument,
                       "after: invalid value (give the \"next\" of the previous page)"));
    }
  }
  WriteList(controller.loop(), std::make_unique<EndedItems>(controller, since), page.limit,
            std::move(done));
}

}  // namespace espalier::controller
