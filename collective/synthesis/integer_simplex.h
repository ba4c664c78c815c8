#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "collective/forest/model/rational.h"

namespace espalier::synthesis {

// Solves a small linear program exactly: maximise the sum of q subject to sum_j n_ij q_j <= cap_i
// and q >= 0, for whole numbers n_ij >= 0 and cap_i > 0.
//
// It is the simplex algorithm in whole numbers over one denominator (Edmonds' integer pivoting):
// every entry is a minor of the program, so the division in a pivot leaves no rest. Bland's rule
// prevents cycles. Columns can be added between solutions, which start from scratch.
class IntegerSimplex {
 public:
  using Int128 = forest::Int128;

  explicit IntegerSimplex(std::vector<std::int64_t> capacity) : capacity_(std::move(capacity)) {}

  // Precondition: the column has an entry for each capacity, and one that is not 0.
  void AddColumn(std::vector<std::int64_t> column) { columns_.push_back(std::move(column)); }

  // Returns false if an entry exceeds 127 bits.
  bool Solve();

  // Of the solution, times the denominator: the objective, the value of a column, and the price of
  // a row (the solution of the dual program).
  Int128 denominator() const { return denominator_; }
  Int128 Objective() const { return table_.back().back(); }
  Int128 Value(std::size_t column) const;
  Int128 Price(std::size_t row) const;

 private:
  std::optional<std::size_t> FindColumn() const;
  std::optional<std::size_t> FindRow(std::size_t column) const;
  bool Pivot(std::size_t row, std::size_t column);

  std::vector<std::int64_t> capacity_;
  std::vector<std::vector<std::int64_t>> columns_;
  std::vector<std::vector<Int128>> table_;  // rows, then the objective; the last entry: the value
  Int128 denominator_ = 1;
  std::vector<std::size_t> of_column_;  // variables: the columns, then the slacks of the rows
  std::vector<std::size_t> of_row_;
};

}  // namespace espalier::synthesis
