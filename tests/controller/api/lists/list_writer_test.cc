// Lists that are written over several turns of the loop.
#include "controller/api/lists/list_writer.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/sim/sim_world.h"

namespace espalier::controller {
namespace {

// Items "0", "1", ...; those from `second` on are in the second array.
class Numbers : public Items {
 public:
  struct Shape {
    std::size_t count = 0;
    std::size_t second = 1'000'000;
    std::size_t work = 1;
    int turns_to_prepare = 0;
  };
  explicit Numbers(const Shape& shape) : shape_(shape) {}

  std::vector<std::string_view> Arrays() const override { return {"a", "b"}; }
  bool Prepare() override { return shape_.turns_to_prepare-- <= 0; }
  std::string Head() override { return "\"version\":7,"; }
  std::optional<Item> Next() override {
    if (next_ == shape_.count) return std::nullopt;
    const std::size_t number = next_++;
    return Item{.name = "n\"" + std::to_string(number),
                .json = std::to_string(number),
                .array = number < shape_.second ? 0U : 1U,
                .work = shape_.work};
  }
  std::string Tail(std::size_t written) override {
    return ",\"written\":" + std::to_string(written);
  }

 private:
  Shape shape_;
  std::size_t next_ = 0;
};

class Writer : public testing::Test {
 protected:
  void Start(const Numbers::Shape& shape, std::optional<std::size_t> limit = std::nullopt) {
    WriteList(*loop_, std::make_unique<Numbers>(shape), limit,
              [this](const Result<std::string>& text) { text_ = text.value(); });
  }
  // The number of turns after the call itself.
  int Turns() {
    int turns = 0;
    while (!text_ && world_.Step()) ++turns;
    return turns;
  }

  sim::SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  std::optional<std::string> text_;
};

TEST_F(Writer, ShortListsAreWrittenAtOnce) {
  Start({.count = 3, .second = 2});
  EXPECT_EQ(text_, "{\"version\":7,\"a\":[0,1],\"b\":[2],\"written\":3}");
}

TEST_F(Writer, EmptyArraysAreWritten) {
  Start({});
  EXPECT_EQ(text_, "{\"version\":7,\"a\":[],\"b\":[],\"written\":0}");
  Start({.count = 1, .second = 0});
  EXPECT_EQ(text_, "{\"version\":7,\"a\":[],\"b\":[0],\"written\":1}");
}

TEST_F(Writer, ALimitNamesTheLastItemIfMoreFollow) {
  Start({.count = 3}, 2);
  EXPECT_EQ(text_, "{\"version\":7,\"a\":[0,1],\"b\":[],\"written\":2,\"next\":\"n\\\"1\"}");
  Start({.count = 2}, 2);
  EXPECT_EQ(text_, "{\"version\":7,\"a\":[0,1],\"b\":[],\"written\":2}");
}

TEST_F(Writer, LongListsTakeSeveralTurns) {
  Start({.count = 2 * kListItemsPerTurn});
  EXPECT_EQ(Turns(), 2);
  text_.reset();
  Start({.count = 4, .work = kListItemsPerTurn});
  EXPECT_EQ(Turns(), 4);
  EXPECT_EQ(text_, "{\"version\":7,\"a\":[0,1,2,3],\"b\":[],\"written\":4}");
}

TEST_F(Writer, PreparationTakesTurnsToo) {
  Start({.count = 1, .turns_to_prepare = 3});
  EXPECT_EQ(Turns(), 3);
  EXPECT_EQ(text_, "{\"version\":7,\"a\":[0],\"b\":[],\"written\":1}");
}

}  // namespace
}  // namespace espalier::controller
