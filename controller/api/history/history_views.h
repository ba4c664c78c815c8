#pragma once

#include <string>

#include "controller/api/lists/list_writer.h"
#include "controller/controller.h"
#include "controller/history/fabric_history.h"

namespace espalier::controller {

// The history of the fabric (controller/history) as JSON objects, written in as many turns of the
// loop as they take (list_writer.h).

// What a client asks of the history. Times are those of ParseWallTime, or "-30m" for half an hour
// ago.
struct HistoryQuery {
  std::string id;          // of the link or job
  std::string from;        // "": ten minutes ago
  std::string to;          // "": now
  std::string resolution;  // seconds: "1", "10", "60"; "": the finest that reaches back to `from`
  std::string time;        // of ShowMoment; "": now
};

// List the samples of a time span, oldest first, at most as many as a resolution has: of the
// fabric, of a link, of a job (none for a job that it does not know).
// Errors: kInvalidArgument for a malformed time or resolution, or a span that ends before it
// begins; kNotFound for an unknown link.
void ListFabricHistory(Controller& controller, const FabricHistory& history,
                       const HistoryQuery& query, ListDone done);
void ListLinkHistory(Controller& controller, const FabricHistory& history,
                     const HistoryQuery& query, ListDone done);
void ListJobHistory(Controller& controller, const FabricHistory& history, const HistoryQuery& query,
                    ListDone done);
// The fabric as it was at a time: links that carried load or traffic or were not up, by the index
// of the topology, and jobs. Errors: kInvalidArgument for a malformed time; kNotFound if the
// history does not reach back to it.
void ShowMoment(Controller& controller, const FabricHistory& history, const HistoryQuery& query,
                ListDone done);

}  // namespace espalier::controller
