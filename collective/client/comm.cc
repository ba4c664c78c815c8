#include "collective/client/comm.h"

#include "collective/client/c_structs.h"

namespace espalier::client {
namespace {

// The communicator that refused this thread's last call because another thread was in a call.
thread_local const espalier_comm* refused_by = nullptr;

}  // namespace

int ErrnoOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return -EINVAL;
    case ErrorCode::kFailedPrecondition:
      return -EPROTO;
    case ErrorCode::kUnavailable:
      return -ECONNABORTED;
    case ErrorCode::kUnsupported:
      return -EOPNOTSUPP;
    case ErrorCode::kResourceExhausted:
      return -ENOMEM;
    case ErrorCode::kAlreadyExists:
      return -EADDRINUSE;
    case ErrorCode::kNotFound:
      return -ENOENT;
    case ErrorCode::kPermissionDenied:
      return -EACCES;
    default:
      return -EIO;
  }
}

int Keep(espalier_comm& comm, Error&& error) {
  comm.error = std::move(error.message);
  return ErrnoOf(error.code);
}

Result<void> CheckKind(int type, int op) {
  if (type < 0 || type >= reduce::kDataTypes) {
    return tl::unexpected(Refuse("unknown element type (see espalier_type)"));
  }
  if (op < 0 || op >= reduce::kReduceOps) {
    return tl::unexpected(Refuse("unknown reduction operation (see espalier_op)"));
  }
  return {};
}

bool Claim(espalier_comm& comm) {
  refused_by = nullptr;
  if (!comm.is_in_call.exchange(true, std::memory_order_acquire)) return true;
  refused_by = &comm;
  return false;
}

const espalier_comm* RefusedBy() { return refused_by; }
void BeginCall() { refused_by = nullptr; }

std::unique_ptr<espalier_comm> Wrap(std::unique_ptr<runtime::Group> group, MeetingPlace place) {
  auto made = std::make_unique<espalier_comm>();
  made->place = std::move(place);
  made->group = std::move(group);
  made->posted = std::make_unique<runtime::AsyncCalls>(*made->group);
  return made;
}

std::unique_ptr<espalier_comm> WrapPlain(std::unique_ptr<runtime::Communicator> group,
                                         MeetingPlace place) {
  runtime::Communicator* const plain = group.get();
  auto made = Wrap(std::move(group), std::move(place));
  made->plain = plain;
  made->lineage = runtime::Lineage::Of(*plain);
  return made;
}

}  // namespace espalier::client
