#include "collective/transport/rendezvous/handshake.h"

#include <array>
#include <span>
#include <string_view>

namespace espalier::transport {
namespace {

constexpr std::string_view kAnswers = "espalier handshake 1 answer";
constexpr std::string_view kCalls = "espalier handshake 1 call";

Mac CodeOf(const std::optional<JobKey>& key, std::string_view purpose, const Hello& hello,
           const Nonce& nonce) {
  if (!key) return {};
  return key->Sign(purpose, {std::as_bytes(std::span(&hello, 1)), std::as_bytes(std::span(nonce))});
}

}  // namespace

Error HandshakeError(Progress progress) {
  if (progress == Progress::kWrongKey) {
    return {ErrorCode::kPermissionDenied,
            "the process that answered has another job key than this rank: give all ranks the same "
            "key (ESPALIER_JOB_KEY_FILE), or find out what else listens at that address"};
  }
  return {ErrorCode::kUnavailable,
          "the process that answered has hung up: it has left, belongs to another group, or only "
          "one of the two ranks has a job key"};
}

HandshakeClient::HandshakeClient(UniqueFd socket, const Hello& hello,
                                 const std::optional<JobKey>& key)
    : socket_(std::move(socket)), hello_(hello), key_(key) {
  hello_.is_keyed = key ? 1 : 0;
  if (key) hello_.nonce = DrawNonce();
}

Progress HandshakeClient::Advance() {
  if (!has_sent_hello_ && !SendAtOnce(socket_.get(), hello_)) return Progress::kHungUp;
  has_sent_hello_ = true;
  const Progress progress = challenge_.Receive(socket_.get());
  if (progress != Progress::kDone) return progress;
  const Challenge& challenge = challenge_.value();
  if (!IsSame(challenge.code, CodeOf(key_, kAnswers, hello_, challenge.nonce))) {
    return Progress::kWrongKey;
  }
  const Proof proof = {.code = CodeOf(key_, kCalls, hello_, challenge.nonce)};
  return SendAtOnce(socket_.get(), proof) ? Progress::kDone : Progress::kHungUp;
}

Progress HandshakeServer::Advance(const std::optional<JobKey>& key,
                                  const std::function<bool(const Hello&)>& is_expected) {
  if (!knows_group_) {
    const Progress progress = hello_.Receive(socket_.get());
    if (progress != Progress::kDone) return progress;
    if (hello().is_keyed != (key ? 1U : 0U) || !is_expected(hello())) return Progress::kHungUp;
    if (key) nonce_ = DrawNonce();
    const Challenge challenge = {.nonce = nonce_, .code = CodeOf(key, kAnswers, hello(), nonce_)};
    if (!SendAtOnce(socket_.get(), challenge)) return Progress::kHungUp;
    knows_group_ = true;
  }
  const Progress progress = proof_.Receive(socket_.get());
  if (progress != Progress::kDone) return progress;
  const bool is_right = IsSame(proof_.value().code, CodeOf(key, kCalls, hello(), nonce_));
  return is_right ? Progress::kDone : Progress::kWrongKey;
}

}  // namespace espalier::transport
