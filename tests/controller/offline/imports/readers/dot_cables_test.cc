#include "controller/offline/imports/readers/dot_cables.h"

#include "tests/controller/offline/imports/broken_files.h"

namespace espalier::imports {
namespace {

TEST(DotCables, ReadsWhatTheTopologyManagerReads) {
  const auto cabling = ReadDotCables(Example("ptm.dot"), "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling),
            "server01:eth1-leaf01:swp1 25\nserver02:eth1-leaf02:swp1 25\n"
            "leaf01:swp51-spine01:swp1 100\nleaf02:swp51-spine01:swp2 100\n");
  ASSERT_EQ(cabling->devices.size(), 5U);
  EXPECT_EQ(cabling->devices[2].role, fabric::SwitchRole::kSpine);
  EXPECT_EQ(cabling->devices[3].kind, DeviceKind::kHost);
  EXPECT_EQ(cabling->cables[3].at.line, 15);
}

TEST(DotCables, ReadsQuotesCommentsAndSettings) {
  const auto cabling =
      ReadDotCables("graph{/* a\n comment */x=y;\"a\\\"b\":\"1:2\"--c:d[speed=400;]\n#!\n}", "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling), "a\"b:1:2-c:d 400\n");
}

TEST(DotCables, NamesThePlaceOfEveryError) {
  ExpectErrors(ReadDotCables,
               {{"", "1:1: expected graph instead of the end of the file"},
                {"digraph g {}", "1:1: a digraph has directions (write graph"},
                {"strict graph g {}", "1:1: a strict graph merges parallel cables"},
                {"graph g {\n a:1 -> b:1 }", "2:6: -> has a direction (write --)"},
                {"graph g {\n a:1 -- {b:1; c:1} }", "2:9: sets of nodes are not read"},
                {"graph g { subgraph x {} }", "1:11: subgraphs and sets of nodes are not read"},
                {"graph g { a:1 -- b:1 -- c:1 }", "1:22: a chain of cables is not read"},
                {"graph g { \"leaf0:swp1\" -- b:1 }", "1:11: \"leaf0:swp1\" has no port (write"},
                {"graph g { a:1 -- <b>:1 }", "1:18: HTML is not read"},
                {"graph g { a:1 -- b:1 [speed=fast] }", "1:29: \"fast\" is not a rate"},
                {"graph g { a:1 -- b:1 [speed] }", "1:28: expected \"=\" instead of \"]\""},
                {"graph g { a:1 -- \"b:1 }", "1:18: the quote has no end"},
                {"graph g { /* a", "1:11: the comment has no end"},
                {"graph g { a:1 -- b:1", "1:21: expected \"}\" instead of the end"},
                {"graph g {} graph h {}", "1:12: text after the graph"},
                {"graph g { leaf-1:1 -- b:1 }", "1:15: unexpected \"-\" (put names in quotes)"},
                {"graph g { a:1:n -- b:1 }", "1:14: a second colon"},
                {"graph g { \"\":1 -- b:1 }", "1:11: the device has no name"}});
}

}  // namespace
}  // namespace espalier::imports
