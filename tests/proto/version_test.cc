#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include "proto/decode.h"
#include "proto/encode.h"
#include "proto/espalier/v1/messages.pb.h"
#include "tests/proto/examples.h"

// Peers of another minor version.
namespace espalier::wire {
namespace {

namespace pb = google::protobuf;

// Adds a field that no version knows yet to the message and to all messages inside it.
void AddUnknownFields(pb::Message& message) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      AddUnknownFields(*reflection.MutableMessage(&message, field));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      AddUnknownFields(*reflection.MutableRepeatedMessage(&message, field, i));
    }
  }
  reflection.MutableUnknownFields(&message)->AddVarint(900, 7);
  reflection.MutableUnknownFields(&message)->AddLengthDelimited(901, "from the future");
}

TEST(Version, UnknownFieldsAreIgnoredAtEveryLevel) {
  Decoder decoder;
  for (const Message& example : MakeExamples()) {
    v1::Envelope envelope;
    ASSERT_TRUE(envelope.ParseFromString(Encode(example)));
    AddUnknownFields(envelope);
    const std::string bytes = envelope.SerializeAsString();
    ASSERT_GT(bytes.size(), Encode(example).size() + 30);
    const auto decoded = decoder.Decode(bytes);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
    EXPECT_TRUE(**decoded == example) << example.body.index();
  }
}

TEST(Version, AnUnknownBodyIsAnErrorThatSaysSo) {
  v1::Envelope envelope;
  envelope.set_sender_instance(1);
  envelope.GetReflection()->MutableUnknownFields(&envelope)->AddLengthDelimited(
      200, "a body of version 1.7");
  Decoder decoder;
  const auto decoded = decoder.Decode(envelope.SerializeAsString());
  ASSERT_FALSE(decoded.has_value());
  EXPECT_THAT(decoded.error().message, ::testing::HasSubstr("of a kind that this version"));
}

// The registry has to read it to be able to refuse it.
TEST(Version, AHelloOfAnotherMajorVersionIsRead) {
  const Message message{.sender_instance = 1, .body = Hello{.name = "host1", .protocol_major = 9}};
  Decoder decoder;
  EXPECT_TRUE(**decoder.Decode(Encode(message)) == message);
}

}  // namespace
}  // namespace espalier::wire
