#include "collective/client/espalier_exchange.h"

#include <span>
#include <utility>
#include <vector>

#include "collective/client/c_structs.h"
#include "collective/client/comm.h"
#include "collective/runtime/calls/exchange.h"
#include "collective/runtime/group/function_reduction.h"
#include "collective/runtime/group/many_buffers.h"

using espalier::Propagate;
using espalier::Result;
using espalier::client::CallOfGroup;
using espalier::client::CheckKind;
using espalier::client::Guard;
using espalier::client::Post;
using espalier::client::Refuse;
using espalier::reduce::DataType;
using espalier::reduce::ReduceOp;
using espalier::runtime::Exchange;
using espalier::runtime::Group;
using espalier::runtime::Parts;
using espalier::runtime::ReductionFunction;

namespace {

// Runs the exchange that `make` returns for a group and an element type.
template <typename MakeFunction>
int Run(espalier_comm* comm, int type, const MakeFunction& make) {
  return Guard(comm, [&](Group& group) -> Result<void> {
    auto checked = CheckKind(type, ESPALIER_SUM);
    if (!checked) return checked;
    Result<Exchange> exchange = make(group, static_cast<DataType>(type));
    if (!exchange) return Propagate(exchange);
    return group.RunExchange(*exchange);
  });
}

// One count for each rank, which are read at the root only if there is one.
Result<Parts> CountsOf(const Group& group, const size_t* counts, int root = ESPALIER_NO_ROOT) {
  if (root != ESPALIER_NO_ROOT && root != group.rank()) return Parts{};
  if (counts == nullptr) return tl::unexpected(Refuse("counts is null (give one for each rank)"));
  return Parts{.counts = {counts, static_cast<size_t>(group.size())}};
}

Result<Exchange> ToExchange(const espalier_message* sends, size_t send_count,
                            const espalier_message* receives, size_t receive_count) {
  if ((sends == nullptr && send_count > 0) || (receives == nullptr && receive_count > 0)) {
    return tl::unexpected(Refuse("the array of messages is null"));
  }
  Exchange exchange;
  for (const espalier_message& one : std::span(sends, send_count)) {
    const auto* data = static_cast<const std::byte*>(one.data);
    exchange.sends.push_back({.peer = one.peer, .bytes = {data, one.bytes}, .tag = one.tag});
  }
  for (const espalier_message& one : std::span(receives, receive_count)) {
    auto* data = static_cast<std::byte*>(one.data);
    exchange.receives.push_back({.peer = one.peer, .bytes = {data, one.bytes}, .tag = one.tag});
  }
  return exchange;
}

ReductionFunction ToFunction(size_t element_bytes, espalier_reduction function, void* context) {
  ReductionFunction reduction{.element_bytes = element_bytes, .combine = {}};
  if (function != nullptr) {
    reduction.combine = [=](std::byte* left, const std::byte* right, size_t count) {
      function(left, right, count, context);
    };
  }
  return reduction;
}

}  // namespace

int espalier_gather(espalier_comm* comm, const void* input, void* output, size_t count, int type,
                    int root) {
  return Run(comm, type, [&](Group& group, DataType of) {
    return espalier::runtime::MakeGather(group.rank(), group.size(), input, count, output,
                                         {.counts = {}, .count = count}, of, root);
  });
}

int espalier_gatherv(espalier_comm* comm, const void* input, size_t count, void* output,
                     const size_t* counts, int type, int root) {
  return Run(comm, type, [&](Group& group, DataType of) -> Result<Exchange> {
    auto parts = CountsOf(group, counts, root);
    if (!parts) return Propagate(parts);
    return espalier::runtime::MakeGather(group.rank(), group.size(), input, count, output, *parts,
                                         of, root);
  });
}

int espalier_scatter(espalier_comm* comm, const void* input, void* output, size_t count, int type,
                     int root) {
  return Run(comm, type, [&](Group& group, DataType of) {
    return espalier::runtime::MakeScatter(group.rank(), group.size(), input,
                                          {.counts = {}, .count = count}, output, count, of, root);
  });
}

int espalier_scatterv(espalier_comm* comm, const void* input, const size_t* counts, void* output,
                      size_t count, int type, int root) {
  return Run(comm, type, [&](Group& group, DataType of) -> Result<Exchange> {
    auto parts = CountsOf(group, counts, root);
    if (!parts) return Propagate(parts);
    return espalier::runtime::MakeScatter(group.rank(), group.size(), input, *parts, output, count,
                                          of, root);
  });
}

int espalier_alltoallv(espalier_comm* comm, const void* input, const size_t* send_counts,
                       void* output, const size_t* receive_counts, int type) {
  return Run(comm, type, [&](Group& group, DataType of) -> Result<Exchange> {
    auto sends = CountsOf(group, send_counts);
    if (!sends) return Propagate(sends);
    auto receives = CountsOf(group, receive_counts);
    if (!receives) return Propagate(receives);
    return espalier::runtime::MakeAllToAll(group.rank(), group.size(), input, *sends, output,
                                           *receives, of);
  });
}

int espalier_exchange(espalier_comm* comm, const espalier_message* sends, size_t send_count,
                      const espalier_message* receives, size_t receive_count) {
  return Guard(comm, [&](Group& group) -> Result<void> {
    auto exchange = ToExchange(sends, send_count, receives, receive_count);
    if (!exchange) return Propagate(exchange);
    return group.RunExchange(*exchange);
  });
}

int espalier_send(espalier_comm* comm, const void* data, size_t bytes, int peer, uint64_t tag) {
  const espalier_message message = {const_cast<void*>(data), bytes, peer, tag};
  return espalier_exchange(comm, &message, 1, nullptr, 0);
}

int espalier_receive(espalier_comm* comm, void* data, size_t bytes, int peer, uint64_t tag) {
  const espalier_message message = {data, bytes, peer, tag};
  return espalier_exchange(comm, nullptr, 0, &message, 1);
}

int espalier_post_exchange(espalier_comm* comm, const espalier_message* sends, size_t send_count,
                           const espalier_message* receives, size_t receive_count,
                           uint64_t* request) {
  return Post(comm, request, [&]() -> Result<CallOfGroup> {
    auto exchange = ToExchange(sends, send_count, receives, receive_count);
    if (!exchange) return Propagate(exchange);
    return [own = std::move(*exchange)](Group& group) { return group.RunExchange(own); };
  });
}

int espalier_allreduce_by(espalier_comm* comm, const void* input, void* output, size_t count,
                          size_t element_bytes, espalier_reduction function, void* context) {
  return Guard(comm, [&](Group& group) {
    return espalier::runtime::AllReduceBy(group, input, output, count,
                                          ToFunction(element_bytes, function, context));
  });
}

int espalier_reduce_by(espalier_comm* comm, const void* input, void* output, size_t count,
                       size_t element_bytes, espalier_reduction function, void* context, int root) {
  return Guard(comm, [&](Group& group) {
    return espalier::runtime::ReduceBy(group, input, output, count,
                                       ToFunction(element_bytes, function, context), root);
  });
}

int espalier_reduce_scatter_by(espalier_comm* comm, const void* input, void* output, size_t count,
                               size_t element_bytes, espalier_reduction function, void* context) {
  return Guard(comm, [&](Group& group) {
    return espalier::runtime::ReduceScatterBy(group, input, output, count,
                                              ToFunction(element_bytes, function, context));
  });
}

int espalier_allreduce_many(espalier_comm* comm, const void* const* inputs, size_t input_count,
                            void* const* outputs, size_t output_count, size_t count, int type,
                            int op) {
  return Guard(comm, [&](Group& group) -> Result<void> {
    auto checked = CheckKind(type, op);
    if (!checked) return checked;
    if (inputs == nullptr || outputs == nullptr) {
      return tl::unexpected(Refuse("the array of buffers is null"));
    }
    return espalier::runtime::AllReduceMany(group, {inputs, input_count}, {outputs, output_count},
                                            count, static_cast<DataType>(type),
                                            static_cast<ReduceOp>(op));
  });
}

int espalier_allreduce_together(espalier_comm* comm, const void* const* inputs,
                                void* const* outputs, const size_t* counts, size_t buffers,
                                int type, int op) {
  return Guard(comm, [&](Group& group) -> Result<void> {
    auto checked = CheckKind(type, op);
    if (!checked) return checked;
    if (buffers > 0 && (inputs == nullptr || outputs == nullptr || counts == nullptr)) {
      return tl::unexpected(Refuse("the array of buffers or counts is null"));
    }
    return espalier::runtime::AllReduceTogether(group, {inputs, buffers}, {outputs, buffers},
                                                {counts, buffers}, static_cast<DataType>(type),
                                                static_cast<ReduceOp>(op));
  });
}
