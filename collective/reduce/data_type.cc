#include "collective/reduce/data_type.h"

#include "common/base/enum_names.h"

namespace espalier::reduce {
namespace {

constexpr EnumNames<DataType> kTypeNames({
    {DataType::kF32, "f32"},
    {DataType::kF64, "f64"},
    {DataType::kF16, "f16"},
    {DataType::kBf16, "bf16"},
    {DataType::kI8, "i8"},
    {DataType::kI32, "i32"},
    {DataType::kI64, "i64"},
    {DataType::kU8, "u8"},
});
constexpr EnumNames<ReduceOp> kOpNames({
    {ReduceOp::kSum, "sum"},
    {ReduceOp::kProd, "prod"},
    {ReduceOp::kMin, "min"},
    {ReduceOp::kMax, "max"},
    {ReduceOp::kAvg, "avg"},
});
static_assert(kTypeNames.kCount == kDataTypes && kOpNames.kCount == kReduceOps);

}  // namespace

std::string_view DataTypeName(DataType type) { return kTypeNames.NameOf(type); }
std::string_view ReduceOpName(ReduceOp op) { return kOpNames.NameOf(op); }

}  // namespace espalier::reduce
