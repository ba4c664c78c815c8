#include "controller/offline/imports/facts/yaml.h"

#include <gtest/gtest.h>

namespace espalier::imports {
namespace {

TEST(Yaml, ReadsMappingsSequencesAndScalarsWithTheirPlaces) {
  const auto root =
      ParseYaml("a: 1\nb:\n  - x\n  - {c: 'two words', d: |\n      text\n    }\n", "f");
  EXPECT_FALSE(root.has_value());  // a block scalar has no place in a flow mapping
  const auto good = ParseYaml("a: 1\nb:\n  - x\n  - {c: 'two words'}\ne: |\n  line\n", "f");
  ASSERT_TRUE(good.has_value()) << good.error().message;
  ASSERT_EQ(good->members.size(), 3U);
  EXPECT_EQ(good->Find("a")->text, "1");
  const io::JsonValue& list = *good->Find("b");
  ASSERT_EQ(list.items.size(), 2U);
  EXPECT_EQ(list.items[1].Find("c")->text, "two words");
  EXPECT_EQ(list.items[1].line, 4);
  EXPECT_EQ(list.items[1].column, 5);
  EXPECT_EQ(list.key_line, 2);
  EXPECT_EQ(good->Find("e")->text, "line\n");
}

TEST(Yaml, NamesThePlaceOfAnError) {
  const auto bad = ParseYaml("a: [1\nb: 2\n", "f");
  ASSERT_FALSE(bad.has_value());
  EXPECT_TRUE(bad.error().message.starts_with("f:2:")) << bad.error().message;
  EXPECT_EQ(ParseYaml({}, "f").error().message, "f:1:1: the file is empty (give a topology)");
  EXPECT_EQ(ParseYaml("a: &x 1\nb: *x\n", "f").error().message,
            "f:1:4: an anchor is not read (remove it)");
}

}  // namespace
}  // namespace espalier::imports
