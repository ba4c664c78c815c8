#include "controller/api/lists/list_writer.h"

#include <fmt/format.h>

#include <utility>

#include "common/files/json_writer.h"

namespace espalier::controller {
namespace {

// A list in progress, which the turn that it has posted keeps alive.
class Writing : public std::enable_shared_from_this<Writing> {
 public:
  Writing(EventLoop& loop, std::unique_ptr<Items> items, std::optional<std::size_t> limit,
          ListDone done)
      : loop_(loop),
        items_(std::move(items)),
        limit_(limit),
        done_(std::move(done)),
        arrays_(items_->Arrays()) {}

  void Write() {
    if (text_.empty()) {
      if (!items_->Prepare()) return WriteOn();
      text_ = fmt::format("{{{}\"{}\":[", items_->Head(), arrays_.front());
    }
    for (std::size_t work = 0; work < kListItemsPerTurn;) {
      std::optional<Item> item = items_->Next();
      if (!item) return End("");
      if (limit_ && written_ == *limit_) return End(last_);
      GoToArray(item->array);
      if (!std::exchange(is_first_, false)) text_ += ',';
      text_ += item->json;
      last_ = std::move(item->name);
      ++written_;
      work += item->work;
    }
    WriteOn();
  }

 private:
  void WriteOn() {
    loop_.Post([self = shared_from_this()] { self->Write(); });
  }
  void GoToArray(std::size_t array) {
    while (array_ < array) {
      text_ += fmt::format("],\"{}\":[", arrays_[++array_]);
      is_first_ = true;
    }
  }
  void End(const std::string& next) {
    GoToArray(arrays_.size() - 1);
    text_ += ']' + items_->Tail(written_);
    if (!next.empty()) text_ += ",\"next\":" + io::JsonWriter().String(next).Text();
    text_ += '}';
    done_(std::move(text_));
  }

  EventLoop& loop_;
  const std::unique_ptr<Items> items_;
  const std::optional<std::size_t> limit_;
  const ListDone done_;
  const std::vector<std::string_view> arrays_;
  std::size_t array_ = 0;
  bool is_first_ = true;  // the next item is the first of its array
  std::size_t written_ = 0;
  std::string last_;
  std::string text_;
};

}  // namespace

void WriteList(EventLoop& loop, std::unique_ptr<Items> items, std::optional<std::size_t> limit,
               ListDone done) {
  std::make_shared<Writing>(loop, std::move(items), limit, std::move(done))->Write();
}

}  // namespace espalier::controller
