#include "collective/transport/rendezvous/published_endpoint.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::transport {
namespace {

TEST(PublishedEndpoint, IsReadAsItWasWritten) {
  for (const char* const digits : {"10.1.2.3", "fd00::1"}) {
    const PublishedEndpoint place = {
        .address = *IpAddress::Parse(digits), .port = 65535, .group = UINT64_MAX, .version = 4};
    const auto read = PublishedEndpoint::Parse(place.ToText(), 4);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->address, place.address);
    EXPECT_EQ(read->port, place.port);
    EXPECT_EQ(read->group, place.group);
    EXPECT_EQ(read->version, 4U);
  }
}

TEST(PublishedEndpoint, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "it has published no valid endpoint"},
      {"10.0.0.1 80 5", "it has published no valid endpoint"},
      {"10.0.0.1 65536 5 4", "it has published no valid endpoint"},
      {"10.0.0.1 eighty 5 4", "it has published no valid endpoint"},
      {"10.0.0.1 80 5 3", "its protocol version is not 4"},
      {"10.0.0.300 80 5 4", "10.0.0.300"},
  };
  for (const auto& [text, why] : cases) {
    const auto read = PublishedEndpoint::Parse(text, 4);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_NE(read.error().message.find(why), std::string::npos) << read.error().message;
    EXPECT_NE(read.error().message.find('"' + std::string(text) + '"'), std::string::npos);
  }
}

TEST(PublishedEndpoint, DrawsAnotherGroupEachTime) { EXPECT_NE(DrawGroup(), DrawGroup()); }

}  // namespace
}  // namespace espalier::transport
