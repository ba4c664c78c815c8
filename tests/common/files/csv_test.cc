#include "common/files/csv.h"

#include <gtest/gtest.h>

namespace espalier::io {
namespace {

TEST(CsvFields, AreQuotedWhereTheyWouldEndTheField) {
  EXPECT_EQ(CsvField(""), "");
  EXPECT_EQ(CsvField("h0--leaf0>leaf0"), "h0--leaf0>leaf0");
  EXPECT_EQ(CsvField("a,b"), "\"a,b\"");
  EXPECT_EQ(CsvField("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(CsvField("a\nb"), "\"a\nb\"");
  EXPECT_EQ(CsvField("\""), "\"\"\"\"");
}

}  // namespace
}  // namespace espalier::io
