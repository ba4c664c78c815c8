// Runs one rank of a Gloo collective over TCP, f32. Built and run by tests/bench/compare_allreduce.
// usage: gloo_collective STORE RANK SIZE COLLECTIVE ALGORITHM REPETITIONS BYTES...
// Algorithms of allreduce: ring_chunked, halving_doubling, bcube, ring (the old classes), new_ring
// and new_bcube (the functions that frameworks call). Other collectives have one algorithm: "-".
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <functional>
#include <memory>

#include "tests/bench/peers/measure.h"

namespace {

using Context = std::shared_ptr<gloo::Context>;

template <typename T>
using Combine = void (*)(void*, const void*, const void*, std::size_t);

double ReduceOne(const Context& context, double value, Combine<double> combine) {
  gloo::AllreduceOptions options(context);
  options.setOutput(&value, 1);
  options.setReduceFunction(combine);
  gloo::allreduce(options);
  return value;
}

template <typename Algorithm>
std::function<void()> Old(const Context& context, std::vector<float>& data) {
  auto algorithm = std::make_shared<Algorithm>(context, std::vector<float*>{data.data()},
                                               static_cast<int>(data.size()));
  return [algorithm] { algorithm->run(); };
}

std::function<void()> AllReduce(const Context& context, const std::string& algorithm,
                                std::vector<float>& input, std::vector<float>& output) {
  if (algorithm == "ring_chunked") return Old<gloo::AllreduceRingChunked<float>>(context, output);
  if (algorithm == "halving_doubling") {
    return Old<gloo::AllreduceHalvingDoubling<float>>(context, output);
  }
  if (algorithm == "bcube") return Old<gloo::AllreduceBcube<float>>(context, output);
  if (algorithm == "ring") return Old<gloo::AllreduceRing<float>>(context, output);
  const auto kind = algorithm == "new_bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                             : gloo::AllreduceOptions::Algorithm::RING;
  return [&, kind] {
    gloo::AllreduceOptions options(context);
    options.setAlgorithm(kind);
    options.setInput(input.data(), input.size());
    options.setOutput(output.data(), output.size());
    options.setReduceFunction(static_cast<Combine<float>>(gloo::sum<float>));
    gloo::allreduce(options);
  };
}

std::function<void()> Make(const Context& context, const std::string& collective,
                           const std::string& algorithm, const peers::Sizes& sizes,
                           std::vector<float>& input, std::vector<float>& output) {
  if (collective == "allreduce") return AllReduce(context, algorithm, input, output);
  if (collective == "allgather") {
    return [&] {
      gloo::AllgatherOptions options(context);
      options.setInput(input.data(), input.size());
      options.setOutput(output.data(), output.size());
      gloo::allgather(options);
    };
  }
  if (collective == "broadcast") {
    return [&] {
      gloo::BroadcastOptions options(context);
      options.setOutput(output.data(), output.size());
      options.setRoot(0);
      gloo::broadcast(options);
    };
  }
  if (collective == "reduce") {
    return [&] {
      gloo::ReduceOptions options(context);
      options.setInput(input.data(), input.size());
      options.setOutput(output.data(), output.size());
      options.setRoot(0);
      options.setReduceFunction(static_cast<Combine<float>>(gloo::sum<float>));
      gloo::reduce(options);
    };
  }
  if (collective == "alltoall") {
    return [&] {
      gloo::AlltoallOptions options(context);
      options.setInput(input.data(), input.size());
      options.setOutput(output.data(), output.size());
      gloo::alltoall(options);
    };
  }
  std::vector<int> counts(static_cast<std::size_t>(context->size), static_cast<int>(sizes.count));
  auto scatter = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
      context, std::vector<float*>{input.data()}, static_cast<int>(input.size()), counts);
  return [scatter] { scatter->run(); };
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 8) return 2;
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(argv[1]);
  auto context =
      std::make_shared<gloo::rendezvous::Context>(std::stoi(argv[2]), std::stoi(argv[3]));
  context->connectFullMesh(store, device);
  const Context group = context;
  for (int i = 7; i < argc; ++i) {
    const std::size_t bytes = std::stoull(argv[i]);
    const peers::Sizes sizes = peers::SizesOf(argv[4], bytes, group->size);
    std::vector<float> input(sizes.input, 1);
    std::vector<float> output(sizes.output, 1);
    const auto call = Make(group, argv[4], argv[5], sizes, input, output);
    peers::Measure(
        bytes, sizes, group->rank, std::stoi(argv[6]), call,
        [&](double value) { return ReduceOne(group, value, gloo::max<double>); },
        [&](double value) { return ReduceOne(group, value, gloo::sum<double>); });
  }
  // Exits without cleaning up, as Gloo's threads may deadlock when they end.
  std::fflush(stdout);
  std::_Exit(0);
}
