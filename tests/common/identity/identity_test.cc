#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "common/files/file.h"
#include "common/files/trusted_files.h"
#include "common/identity/access_tokens.h"
#include "common/identity/key_files.h"
#include "common/identity/key_folder.h"
#include "common/identity/key_ring.h"
#include "tests/temporary_folder.h"

namespace espalier::identity {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

const WallTime kNow = ParseWallTime("2026-11-21T12:00Z", {}).value();

mode_t ModeOf(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

class Identity : public testing::Test {
 protected:
  KeyFolder Open() { return KeyFolder::Open(path_).value(); }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/keys";
};

TEST_F(Identity, FilesOfOtherUsersAreNotTrusted) {
  const std::string secret = folder_.path() + "/secret";
  std::ofstream(secret) << "s";
  ASSERT_EQ(chmod(secret.c_str(), 0600), 0);
  ASSERT_TRUE(io::ReadSecretFile(secret));
  if (chown(secret.c_str(), 12'345, static_cast<gid_t>(-1)) != 0) {
    GTEST_SKIP() << "this user cannot give files away";
  }
  for (const auto& read : {io::ReadSecretFile(secret), io::ReadTrustedFile(secret)}) {
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kPermissionDenied);
    EXPECT_THAT(read.error().message, HasSubstr("chown root " + secret));
  }
}

TEST_F(Identity, SecretsAreForTheirOwnerOnly) {
  KeyFolder folder = Open();
  ASSERT_TRUE(folder.MakeController(kNow));
  const std::string agent = folder.MakeAgents({"h0"}, kNow).value().front();
  ASSERT_TRUE(folder.MakeToken("alice", Role::kViewer, {}, kNow));
  for (const std::string& secret : {path_ + "/controller.key", agent, path_ + "/tokens"}) {
    EXPECT_EQ(ModeOf(secret), 0600U) << secret;
    EXPECT_TRUE(io::ReadSecretFile(secret));
    chmod(secret.c_str(), 0640);
    const auto refused = io::ReadSecretFile(secret);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
    EXPECT_THAT(refused.error().message, HasSubstr("chmod 600 " + secret));
  }
  EXPECT_FALSE(ReadKeyFile(agent));
  EXPECT_FALSE(AccessTokens::Read(path_ + "/tokens"));
  const std::string ring = path_ + "/agents.pub";
  EXPECT_TRUE(KeyRing::Read(ring));
  chmod(ring.c_str(), 0666);
  EXPECT_THAT(KeyRing::Read(ring).error().message, HasSubstr("chmod go-w " + ring));
}

TEST_F(Identity, MissingKeysSayWhatMakesThem) {
  const auto key = ReadKeyFile(path_ + "/agent.key");
  EXPECT_EQ(key.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(key.error().message, HasSubstr("espalier keys make"));
  EXPECT_THAT(KeyRing::Read(path_ + "/agents.pub").error().message,
              HasSubstr("espalier keys make"));
  EXPECT_THAT(ReadControllerKeys(path_ + "/controller.pub").error().message,
              HasSubstr("espalier keys make"));
}

TEST_F(Identity, AnAgentsFileHoldsThePairThatTheRingKnows) {
  KeyFolder folder = Open();
  const std::string path = folder.MakeAgents({"h0", "h1"}, kNow).value().front();
  const KeyFile file = ReadKeyFile(path).value();
  EXPECT_EQ(file.name, "h0");
  EXPECT_EQ(KeyRing::Read(path_ + "/agents.pub").value().NameOf(file.keys.public_key, kNow), "h0");
  EXPECT_EQ(folder.ring().NameOf(file.keys.secret_key, kNow), std::nullopt);
}

TEST_F(Identity, ANameLeadsToNoOtherFolder) {
  KeyFolder folder = Open();
  const std::vector<std::string> paths =
      folder.MakeAgents({"../../evil", "box0/host", ".hidden", "a%2F"}, kNow).value();
  for (const std::string& path : paths) {
    EXPECT_EQ(std::filesystem::path(path).parent_path(), path_ + "/agents") << path;
    EXPECT_TRUE(ReadKeyFile(path)) << path;
  }
  for (const std::string& name : {std::string(), std::string("a b"), std::string("a\nb"),
                                  std::string("caf\xc3\xa9"), std::string(256, 'x')}) {
    EXPECT_EQ(folder.MakeAgents({name}, kNow).error().code, ErrorCode::kInvalidArgument) << name;
  }
}

TEST_F(Identity, NobodyGetsAKeyWhereOneHasOne) {
  KeyFolder folder = Open();
  ASSERT_TRUE(folder.MakeAgents({"h0"}, kNow));
  EXPECT_EQ(folder.MakeAgents({"h1", "h0"}, kNow).error().code, ErrorCode::kAlreadyExists);
  EXPECT_FALSE(folder.ring().HasGoodKey("h1", kNow));
  EXPECT_EQ(folder.MakeAgents({"h2", "h2"}, kNow).error().code, ErrorCode::kAlreadyExists);
}

TEST_F(Identity, RotationOverlaps) {
  KeyFolder folder = Open();
  const std::string path = folder.MakeAgents({"h0"}, kNow).value().front();
  const std::string before = ReadKeyFile(path).value().keys.public_key;
  ASSERT_TRUE(folder.RotateAgent("h0", kNow + 24h, kNow));
  const std::string after = ReadKeyFile(path).value().keys.public_key;
  EXPECT_NE(before, after);
  const KeyRing ring = KeyRing::Read(path_ + "/agents.pub").value();
  EXPECT_EQ(ring.NameOf(before, kNow + 23h), "h0");
  EXPECT_EQ(ring.NameOf(before, kNow + 24h), std::nullopt);
  EXPECT_EQ(ring.NameOf(after, kNow + 999h), "h0");
  EXPECT_EQ(folder.RotateAgent("h7", kNow, kNow).error().code, ErrorCode::kNotFound);
}

TEST_F(Identity, RevokingEndsAllKeysOfANameForEver) {
  KeyFolder folder = Open();
  const std::string path = folder.MakeAgents({"h0"}, kNow).value().front();
  const std::string first = ReadKeyFile(path).value().keys.public_key;
  ASSERT_TRUE(folder.RotateAgent("h0", kNow + 24h, kNow));
  ASSERT_TRUE(folder.RevokeAgent("h0", kNow));
  EXPECT_FALSE(folder.ring().HasGoodKey("h0", kNow));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(folder.RevokeAgent("h0", kNow).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(folder.MakeAgents({"h0"}, kNow));
  EXPECT_TRUE(folder.ring().HasGoodKey("h0", kNow));
  EXPECT_EQ(folder.ring().NameOf(first, kNow), std::nullopt);
}

TEST_F(Identity, TheControllersKeyRotatesInTwoSteps) {
  KeyFolder folder = Open();
  EXPECT_FALSE(folder.PrepareController(kNow));
  ASSERT_TRUE(folder.MakeController(kNow));
  EXPECT_EQ(folder.MakeController(kNow).error().code, ErrorCode::kAlreadyExists);
  const std::string before = ReadKeyFile(path_ + "/controller.key").value().keys.public_key;
  EXPECT_EQ(folder.FinishController().error().code, ErrorCode::kFailedPrecondition);
  ASSERT_TRUE(folder.PrepareController(kNow));
  EXPECT_EQ(folder.PrepareController(kNow).error().code, ErrorCode::kFailedPrecondition);
  const std::vector<std::string> both = ReadControllerKeys(path_ + "/controller.pub").value();
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0], before);
  EXPECT_EQ(ReadKeyFile(path_ + "/controller.key").value().keys.public_key, before);
  ASSERT_TRUE(folder.FinishController());
  EXPECT_EQ(ReadKeyFile(path_ + "/controller.key").value().keys.public_key, both[1]);
  EXPECT_EQ(ReadControllerKeys(path_ + "/controller.pub").value(),
            std::vector<std::string>{both[1]});
}

TEST_F(Identity, OneCommandAtATimeChangesTheFolder) {
  const KeyFolder first = Open();
  EXPECT_EQ(KeyFolder::Open(path_).error().code, ErrorCode::kUnavailable);
}

TEST_F(Identity, TokensAreKeptAsHashes) {
  KeyFolder folder = Open();
  const std::string token = folder.MakeToken("alice", Role::kOperator, kNow + 1h, kNow).value();
  EXPECT_THAT(token, StartsWith("esp_"));
  EXPECT_EQ(io::ReadFile(path_ + "/tokens").value().find(token), std::string::npos);
  const AccessTokens tokens = AccessTokens::Read(path_ + "/tokens").value();
  const AccessToken* const found = tokens.FindByHash(HashToken(token), kNow);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, "alice");
  EXPECT_EQ(found->role, Role::kOperator);
  EXPECT_EQ(tokens.FindByHash(HashToken(token), kNow + 1h), nullptr);
  EXPECT_EQ(tokens.FindByHash(HashToken(token + "x"), kNow), nullptr);
  EXPECT_EQ(tokens.FindByHash(token, kNow), nullptr);
  EXPECT_EQ(folder.MakeToken("alice", Role::kViewer, {}, kNow).error().code,
            ErrorCode::kAlreadyExists);
  ASSERT_TRUE(folder.RevokeToken("alice"));
  EXPECT_EQ(folder.RevokeToken("alice").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(AccessTokens::Read(path_ + "/tokens").value().tokens().empty());
}

TEST(AccessTokens, HashAsTheStandardSays) {
  EXPECT_EQ(HashToken("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_NE(MakeToken(), MakeToken());
}

TEST(IdentityFiles, NameThePlaceOfWhatIsWrong) {
  const std::string key(40, 'a');
  for (const std::string& text :
       {std::string("{"), std::string(R"({"agent_keys": [{"name": "h0"}]})"),
        std::string(R"({"agent_keys": [{"name": "h0", "public_key": "short", "made": "x"}]})"),
        R"({"agent_keys": [{"name": "", "public_key": ")" + key + R"("}]})",
        R"({"agent_keys": [{"name": "a", "public_key": ")" + key +
            R"("}, {"name": "b", "public_key": ")" + key + R"("}]})",
        std::string(R"({"agent_keys": [], "more": 1})")}) {
    const auto ring = KeyRing::Parse(text, "ring");
    ASSERT_FALSE(ring) << text;
    EXPECT_EQ(ring.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(ring.error().message, StartsWith("ring:1:")) << text;
  }
  EXPECT_FALSE(
      AccessTokens::Parse(R"({"tokens": [{"name": "a", "role": "god", "sha256": ""}]})", "t"));
  EXPECT_FALSE(ParseControllerKeys(R"({"controller_public_keys": []})", "c"));
  EXPECT_FALSE(ParseControllerKeys(R"({"controller_public_keys": ["x"]})", "c"));
  const KeyFile one{"h0", io::MakeCurveKeys(), kNow};
  KeyFile mixed = one;
  mixed.keys.secret_key = io::MakeCurveKeys().secret_key;
  EXPECT_TRUE(ParseKeyFile(FormatKeyFile(one), "k"));
  EXPECT_THAT(ParseKeyFile(FormatKeyFile(mixed), "k").error().message,
              HasSubstr("does not belong to the secret key"));
}

}  // namespace
}  // namespace espalier::identity
