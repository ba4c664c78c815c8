#include "tests/studies/lab/lab_study.h"

#include <utility>

#include "common/os/scratch_folder.h"

namespace espalier::demo {

Result<void> RunOnFabric(
    lab::LabOptions shape, std::uint64_t seed,
    const std::function<Result<void>(const lab::Lab& lab, const std::string& folder)>& run) {
  shape.link_rate = kLinkRate;
  shape.seed = seed;
  shape.die_with_caller = true;
  auto lab = lab::Lab::Start(shape);
  if (!lab) return Propagate(lab);
  const auto folder = ScratchFolder::Make("study");
  if (!folder) return tl::unexpected<Error>(folder.error());
  if (Result<void> ran = run(*lab, folder->path()); !ran) return ran;
  return lab::Lab::Stop(shape.name);
}

}  // namespace espalier::demo
