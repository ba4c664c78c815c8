#include "collective/forest/files/byte_stream.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "tests/seeds.h"

namespace espalier::forest {
namespace {

struct Field {
  std::uint32_t value = 0;
  int width = 0;
  bool operator==(const Field&) const = default;
};
using Item = std::variant<std::uint64_t, std::string, Rational, std::vector<Field>>;

Int128 MakeTerm(std::mt19937_64& random) {
  const Int128 wide = static_cast<Int128>(random() >> 1) << 64 | static_cast<Int128>(random());
  return (wide >> (random() % 127)) + 1;
}

Item MakeItem(std::mt19937_64& random) {
  switch (random() % 4) {
    case 0:
      return random() >> (random() % 64);
    case 1:
      return std::string(random() % 200, 'x');
    case 2:
      return Rational(MakeTerm(random), MakeTerm(random) >> 2 | 1);
    default: {
      std::vector<Field> fields(1 + random() % 20);
      for (Field& field : fields) {
        field.width = static_cast<int>(1 + random() % 32);
        field.value =
            static_cast<std::uint32_t>(random() & ((std::uint64_t{1} << field.width) - 1));
      }
      return fields;
    }
  }
}

void Write(const Item& item, ByteWriter& writer) {
  if (const auto* number = std::get_if<std::uint64_t>(&item)) writer.Number(*number);
  if (const auto* text = std::get_if<std::string>(&item)) writer.Text(*text);
  if (const auto* terms = std::get_if<Rational>(&item)) writer.Terms(*terms);
  if (const auto* fields = std::get_if<std::vector<Field>>(&item)) {
    for (const Field& field : *fields) writer.Bits(field.value, field.width);
    writer.Flush();
  }
}

// Reads the next item, of the same kind as another.
Item Read(const Item& like, ByteReader& reader) {
  if (std::holds_alternative<std::uint64_t>(like)) return reader.Number();
  if (std::holds_alternative<std::string>(like)) return std::string(reader.Text());
  if (std::holds_alternative<Rational>(like)) return reader.Terms();
  std::vector<Field> fields = std::get<std::vector<Field>>(like);
  for (Field& field : fields) field.value = reader.Bits(field.width);
  reader.SkipToByte();
  return fields;
}

TEST(ByteStream, ReadsWhatItWroteAndFailsAtEveryCut) {
  for (const std::uint64_t seed : SeedsToTry(1, 100)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<Item> items;
    ByteWriter writer;
    for (std::size_t i = 1 + random() % 8; i > 0; --i) {
      items.push_back(MakeItem(random));
      Write(items.back(), writer);
    }
    const std::string bytes = writer.Take();
    ByteReader whole(bytes);
    for (const Item& item : items) EXPECT_TRUE(Read(item, whole) == item);
    EXPECT_FALSE(whole.Failed());
    EXPECT_EQ(whole.Left(), 0U);
    EXPECT_EQ(whole.Offset(), bytes.size());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      ByteReader cut(std::string_view(bytes).substr(0, size));
      for (const Item& item : items) Read(item, cut);
      EXPECT_TRUE(cut.Failed()) << size << " of " << bytes.size();
    }
  }
}

TEST(ByteStream, KeepsNumbersOfEverySize) {
  ByteWriter writer;
  const Int128 wide = (Int128{1} << 126) + 12345;
  for (int shift = 0; shift < 64; ++shift) writer.Number(std::uint64_t{1} << shift);
  writer.Number(~std::uint64_t{0});
  writer.Terms(Rational(wide, 7));
  writer.Text("nodes");
  for (int width = 1; width <= 32; ++width) writer.Bits((1U << (width - 1)), width);
  writer.Flush();
  const std::string bytes = writer.Take();
  ByteReader reader(bytes);
  for (int shift = 0; shift < 64; ++shift) EXPECT_EQ(reader.Number(), std::uint64_t{1} << shift);
  EXPECT_EQ(reader.Number(), ~std::uint64_t{0});
  EXPECT_EQ(reader.Terms(), Rational(wide, 7));
  EXPECT_EQ(reader.Text(), "nodes");
  for (int width = 1; width <= 32; ++width) EXPECT_EQ(reader.Bits(width), 1U << (width - 1));
  reader.SkipToByte();
  EXPECT_FALSE(reader.Failed());
  EXPECT_EQ(reader.Left(), 0U);
  reader.Number();
  EXPECT_TRUE(reader.Failed());
  // Numbers that never end or exceed 64 bits; a text longer than the file.
  for (const std::string& bad : {std::string(11, '\xFF'), std::string(9, '\xFF') + "\x02"}) {
    ByteReader number(bad);
    number.Number();
    EXPECT_TRUE(number.Failed());
  }
  ByteReader text("\x05 abc");
  EXPECT_EQ(text.Text(), "");
  EXPECT_TRUE(text.Failed());
}

TEST(ByteStream, TakesSevenBitsAByte) {
  const auto size_of = [](std::uint64_t value) {
    ByteWriter writer;
    writer.Number(value);
    return writer.Take().size();
  };
  EXPECT_EQ(size_of(0), 1U);
  EXPECT_EQ(size_of(127), 1U);
  EXPECT_EQ(size_of(128), 2U);
  EXPECT_EQ(size_of((1U << 14) - 1), 2U);
  EXPECT_EQ(size_of(1U << 14), 3U);
  EXPECT_EQ(size_of(std::numeric_limits<std::uint64_t>::max()), 10U);
}

TEST(ByteStream, RefusesNumbersPastTheirLimit) {
  ByteWriter writer;
  writer.Number(5);
  writer.Number(6);
  const std::string bytes = writer.Take();
  ByteReader reader(bytes);
  EXPECT_EQ(reader.NumberUpTo(5), 5U);
  EXPECT_FALSE(reader.Failed());
  EXPECT_EQ(reader.NumberUpTo(5), 0U);
  EXPECT_TRUE(reader.Failed());
  // A fraction with denominator 0, and one with a negative numerator.
  ByteReader nothing(std::string_view("\x01\x00\x00\x00", 4));
  nothing.Terms();
  EXPECT_TRUE(nothing.Failed());
  ByteReader negative(std::string_view("\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x01\x00", 13));
  negative.Terms();
  EXPECT_TRUE(negative.Failed());
}

}  // namespace
}  // namespace espalier::forest
