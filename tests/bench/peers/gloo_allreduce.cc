// One rank of a Gloo allreduce over TCP: prints "bytes seconds" (rank 0), the median over
// repetitions of the slowest rank's time. Built and run by tests/bench/compare_allreduce.
// usage: gloo_allreduce STORE RANK SIZE ring_chunked|halving_doubling|bcube BYTES...
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

std::unique_ptr<gloo::Algorithm> Make(const std::string& name,
                                      const std::shared_ptr<gloo::Context>& context,
                                      std::vector<float>& data) {
  const std::vector<float*> pointers = {data.data()};
  const auto count = static_cast<int>(data.size());
  if (name == "ring_chunked") {
    return std::make_unique<gloo::AllreduceRingChunked<float>>(context, pointers, count);
  }
  if (name == "bcube") {
    return std::make_unique<gloo::AllreduceBcube<float>>(context, pointers, count);
  }
  return std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context, pointers, count);
}

double SlowestRank(const std::shared_ptr<gloo::Context>& context, double seconds) {
  gloo::AllreduceOptions options(context);
  options.setOutput(&seconds, 1);
  options.setReduceFunction(
      [](void* c, const void* a, const void* b, std::size_t n) { gloo::max<double>(c, a, b, n); });
  gloo::allreduce(options);
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  constexpr int kRepetitions = 9;
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(argv[1]);
  auto context =
      std::make_shared<gloo::rendezvous::Context>(std::stoi(argv[2]), std::stoi(argv[3]));
  context->connectFullMesh(store, device);
  for (int i = 5; i < argc; ++i) {
    const std::size_t bytes = std::stoull(argv[i]);
    std::vector<float> data(bytes / sizeof(float), 1);
    auto algorithm = Make(argv[4], context, data);
    const std::size_t batch = std::clamp<std::size_t>((1 << 20) / bytes, 1, 200);
    algorithm->run();
    algorithm->run();
    std::vector<double> times;
    for (int repetition = 0; repetition < kRepetitions; ++repetition) {
      SlowestRank(context, 0);
      const auto begin = std::chrono::steady_clock::now();
      for (std::size_t call = 0; call < batch; ++call) algorithm->run();
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      times.push_back(SlowestRank(context, time.count() / static_cast<double>(batch)));
    }
    std::sort(times.begin(), times.end());
    if (context->rank == 0) std::printf("%zu %.9f\n", bytes, times[times.size() / 2]);
    SlowestRank(context, 0);
  }
  return 0;
}
