// Jobs on forests, as operators start and end them.
#include <fmt/format.h>

#include <utility>

#include "controller/controller.h"

namespace espalier::controller {

void Controller::StartJob(JobSpec spec, OperatorRequest request, ActionDone done) {
  if (request.until) {
    return done(Fail(ErrorCode::kInvalidArgument, "a job takes no time to end at"));
  }
  const auto submit = [this, spec, request = std::move(request),
                       done = std::move(done)](const Result<void>& prepared) {
    Submit({"start job", spec.name, request, "job_started", fmt::format("job={}", spec.name),
            [this, spec, request, prepared]() -> Result<Intents> {
              if (!prepared) return tl::unexpected<Error>(prepared.error());
              if (Result<void> possible = jobs_.Check(spec); !possible) return Propagate(possible);
              Intents changed = state_.intents;
              changed.jobs[spec.name] = {request.reason, request.actor, WallNow(), std::nullopt,
                                         FormatStoredJob({spec, jobs_.ChooseListenPorts(spec)})};
              return changed;
            },
            done});
  };
  // What is wrong at first sight needs no forest.
  const Result<void> possible = jobs_.Check(spec);
  if (!possible) return submit(possible);
  jobs_.Prepare(spec, submit);
}

void Controller::StopJob(const std::string& name, OperatorRequest request, ActionDone done) {
  Submit({"stop job", name, std::move(request), "job_stopped", fmt::format("job={}", name),
          [this, name]() -> Result<Intents> {
            Intents changed = state_.intents;
            if (changed.jobs.erase(name) > 0) return changed;
            return Fail(
                ErrorCode::kNotFound,
                fmt::format("there is no job \"{}\" (`espalier job list` names them)", name));
          },
          std::move(done)});
}

}  // namespace espalier::controller
