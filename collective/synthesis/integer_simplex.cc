#include "collective/synthesis/integer_simplex.h"

#include <numeric>

namespace espalier::synthesis {

using forest::Rational;

bool IntegerSimplex::Solve() {
  const std::size_t rows = capacity_.size();
  const std::size_t width = columns_.size() + 1;
  table_.assign(rows + 1, std::vector<Int128>(width, 0));
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns_.size(); ++j) table_[i][j] = columns_[j][i];
    table_[i][width - 1] = capacity_[i];
  }
  for (std::size_t j = 0; j < columns_.size(); ++j) table_[rows][j] = -1;
  denominator_ = 1;
  of_column_.resize(columns_.size());
  std::iota(of_column_.begin(), of_column_.end(), std::size_t{0});
  of_row_.resize(rows);
  std::iota(of_row_.begin(), of_row_.end(), columns_.size());
  while (true) {
    const auto column = FindColumn();
    if (!column) return true;
    const auto row = FindRow(*column);
    if (!row || !Pivot(*row, *column)) return false;
  }
}

IntegerSimplex::Int128 IntegerSimplex::Value(std::size_t column) const {
  for (std::size_t i = 0; i < of_row_.size(); ++i) {
    if (of_row_[i] == column) return table_[i].back();
  }
  return 0;
}

IntegerSimplex::Int128 IntegerSimplex::Price(std::size_t row) const {
  for (std::size_t j = 0; j < of_column_.size(); ++j) {
    if (of_column_[j] == columns_.size() + row) return table_.back()[j];
  }
  return 0;
}

std::optional<std::size_t> IntegerSimplex::FindColumn() const {
  std::optional<std::size_t> best;
  for (std::size_t j = 0; j < of_column_.size(); ++j) {
    if (table_.back()[j] < 0 && (!best || of_column_[j] < of_column_[*best])) best = j;
  }
  return best;
}

std::optional<std::size_t> IntegerSimplex::FindRow(std::size_t column) const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < of_row_.size(); ++i) {
    if (table_[i][column] <= 0) continue;
    if (!best) {
      best = i;
      continue;
    }
    const Rational ratio(table_[i].back(), table_[i][column]);
    const Rational least(table_[*best].back(), table_[*best][column]);
    if (ratio < least || (ratio == least && of_row_[i] < of_row_[*best])) best = i;
  }
  return best;
}

bool IntegerSimplex::Pivot(std::size_t row, std::size_t column) {
  const Int128 pivot = table_[row][column];
  for (std::size_t i = 0; i < table_.size(); ++i) {
    if (i == row) continue;
    const Int128 factor = table_[i][column];
    for (std::size_t j = 0; j < table_[i].size(); ++j) {
      if (j == column) continue;
      Int128 left = 0;
      Int128 right = 0;
      if (__builtin_mul_overflow(table_[i][j], pivot, &left) ||
          __builtin_mul_overflow(factor, table_[row][j], &right) ||
          __builtin_sub_overflow(left, right, &left)) {
        return false;
      }
      table_[i][j] = left / denominator_;
    }
    table_[i][column] = -factor;
  }
  table_[row][column] = denominator_;
  denominator_ = pivot;
  std::swap(of_row_[row], of_column_[column]);
  return true;
}

}  // namespace espalier::synthesis
