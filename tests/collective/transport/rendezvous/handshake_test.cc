// The handshake by which both ends of a connection prove that they have the group's key.
#include "collective/transport/rendezvous/handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <utility>

namespace espalier::transport {
namespace {

struct Pair {
  UniqueFd caller;
  UniqueFd answerer;
};

Pair MakePair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::string ReadAll(int socket) {
  char bytes[512];
  const ssize_t got = ::recv(socket, bytes, sizeof(bytes), MSG_DONTWAIT);
  return std::string(bytes, got > 0 ? static_cast<std::size_t>(got) : 0);
}

void Write(int socket, const std::string& bytes) {
  ASSERT_EQ(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

const auto kAnyone = [](const Hello& /*hello*/) { return true; };
const Hello kHello = {.magic = 1, .version = 2, .group = 3, .from = 1, .to = 0};

// The result on each end.
std::pair<Progress, Progress> Meet(const std::optional<JobKey>& caller_has,
                                   const std::optional<JobKey>& answerer_has) {
  Pair pair = MakePair();
  HandshakeClient call(std::move(pair.caller), kHello, caller_has);
  HandshakeServer answer(std::move(pair.answerer));
  EXPECT_EQ(call.Advance(), Progress::kGoesOn);
  Progress answered = answer.Advance(answerer_has, kAnyone);
  if (answered == Progress::kHungUp) ::shutdown(answer.socket(), SHUT_RDWR);
  const Progress called = call.Advance();
  if (called != Progress::kDone) ::shutdown(call.socket(), SHUT_RDWR);
  if (answered == Progress::kGoesOn) answered = answer.Advance(answerer_has, kAnyone);
  return {called, answered};
}

TEST(Handshake, SucceedsWhereBothHaveTheKeyOrBothHaveNone) {
  const JobKey key = JobKey::Draw();
  EXPECT_EQ(Meet(key, key), std::pair(Progress::kDone, Progress::kDone));
  EXPECT_EQ(Meet({}, {}), std::pair(Progress::kDone, Progress::kDone));
}

TEST(Handshake, FailsWhereTheyDiffer) {
  const JobKey key = JobKey::Draw();
  EXPECT_EQ(Meet(key, JobKey::Draw()), std::pair(Progress::kWrongKey, Progress::kHungUp));
  EXPECT_EQ(Meet(key, {}), std::pair(Progress::kHungUp, Progress::kHungUp));
  EXPECT_EQ(Meet({}, key), std::pair(Progress::kHungUp, Progress::kHungUp));
}

TEST(Handshake, TakesItsBytesOneByOneAndNoneOfWhatFollows) {
  const JobKey key = JobKey::Draw();
  Pair wire = MakePair();
  Pair pair = MakePair();
  HandshakeClient call(std::move(wire.caller), kHello, key);
  HandshakeServer answer(std::move(pair.answerer));
  ASSERT_EQ(call.Advance(), Progress::kGoesOn);
  for (const char byte : ReadAll(wire.answerer.get())) {
    EXPECT_EQ(answer.Advance(key, kAnyone), Progress::kGoesOn);
    Write(pair.caller.get(), std::string(1, byte));
  }
  EXPECT_EQ(answer.Advance(key, kAnyone), Progress::kGoesOn);
  EXPECT_TRUE(answer.knows_group());
  const std::string challenge = ReadAll(pair.caller.get());
  ASSERT_EQ(challenge.size(), sizeof(Challenge));
  for (const char byte : challenge) {
    EXPECT_EQ(call.Advance(), Progress::kGoesOn);
    Write(wire.answerer.get(), std::string(1, byte));
  }
  EXPECT_EQ(call.Advance(), Progress::kDone);
  Write(pair.caller.get(), ReadAll(wire.answerer.get()) + "what follows");
  EXPECT_EQ(answer.Advance(key, kAnyone), Progress::kDone);
  EXPECT_EQ(ReadAll(answer.socket()), "what follows");
}

// A code is valid only for the connection for which it was made.
TEST(Handshake, CannotBeReplayed) {
  const JobKey key = JobKey::Draw();
  Pair wire = MakePair();
  Pair pair = MakePair();
  HandshakeClient call(std::move(wire.caller), kHello, key);
  HandshakeServer answer(std::move(pair.answerer));
  ASSERT_EQ(call.Advance(), Progress::kGoesOn);
  const std::string hello = ReadAll(wire.answerer.get());
  Write(pair.caller.get(), hello);
  ASSERT_EQ(answer.Advance(key, kAnyone), Progress::kGoesOn);
  Write(wire.answerer.get(), ReadAll(pair.caller.get()));
  ASSERT_EQ(call.Advance(), Progress::kDone);
  const std::string proof = ReadAll(wire.answerer.get());
  // Replayed to the same rank, and sent for a hello that differs in one field.
  Pair again = MakePair();
  HandshakeServer second(std::move(again.answerer));
  Write(again.caller.get(), hello + proof);
  EXPECT_EQ(second.Advance(key, kAnyone), Progress::kWrongKey);
  for (std::size_t at = 0; at < sizeof(Hello); at += 4) {
    if (at == offsetof(Hello, is_keyed)) continue;
    Pair altered = MakePair();
    HandshakeClient honest(std::move(altered.caller), kHello, key);
    ASSERT_EQ(honest.Advance(), Progress::kGoesOn);
    std::string said = ReadAll(altered.answerer.get());
    said[at] = static_cast<char>(said[at] + 1);
    Pair onward = MakePair();
    HandshakeServer misled(std::move(onward.answerer));
    Write(onward.caller.get(), said);
    ASSERT_EQ(misled.Advance(key, kAnyone), Progress::kGoesOn);
    Write(altered.answerer.get(), ReadAll(onward.caller.get()));
    EXPECT_EQ(honest.Advance(), Progress::kWrongKey) << at;
  }
}

// By Python's hmac: hmac.new(b"0123456789abcdef" * 2, b"what\0Hi There", hashlib.sha256).
TEST(JobKey, SignsAsTheStandardSays) {
  const auto key =
      JobKey::Parse("3031323334353637383961626364656630313233343536373839616263646566");
  ASSERT_TRUE(key);
  const std::string data = "Hi There";
  const Mac code = key->Sign("what", {std::as_bytes(std::span(data))});
  EXPECT_EQ(JobKey(code).ToText(),
            "8766fb4c6e5a0dd97bfc1e50773ffcca621ed50d9a95175b2e1510a7c6289ea6");
}

TEST(JobKey, IsReadAsItWasWritten) {
  const JobKey key = JobKey::Draw();
  EXPECT_EQ(*JobKey::Parse(" " + key.ToText() + "\n"), key);
  EXPECT_NE(JobKey::Draw(), key);
  for (const std::string& wrong :
       {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'g')}) {
    const auto read = JobKey::Parse(wrong);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace espalier::transport
