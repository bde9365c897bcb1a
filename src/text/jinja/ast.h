// The tree of a parsed template. Chains of operators and of postfixes are lists, so that the tree is only as deep as
// brackets and blocks are nested (which the parser limits).
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace roundel::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;
struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

enum class ExpressionKind : uint8_t {
  kConstant,
  kName,
  kList,
  kTuple,
  kDict,  // key, value, key, value ...
  kNot,
  kNegate,
  kPlus,
  kArithmetic,  // operands joined by `operators`, from the left
  kCompare,     // a < b < c: all hold
  kAnd,
  kOr,
  kConcat,     // a ~ b ~ c
  kCondition,  // value, condition, value, condition ... [, value of the last else]
  kPostfix,    // operands[0] followed by `postfixes`
};

struct CallNode {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr list, dict;  // *list, **dict
};

enum class PostfixKind : uint8_t { kAttribute, kItem, kSlice, kCall, kFilter, kTest, kNotTest };

struct Postfix {
  PostfixKind kind;
  int line;
  std::string name;                    // of attribute, filter or test
  ExpressionPtr first, second, third;  // item; start, stop and step of a slice
  CallNode call;
};

struct Expression {
  ExpressionKind kind;
  int line;
  int name = -1;   // kName: place in Template::names
  Value constant;  // kConstant
  std::vector<ExpressionPtr> operands;
  std::vector<Operator> operators;
  std::vector<Postfix> postfixes;
};

struct Target {  // what is assigned to
  enum Kind : uint8_t { kName, kAttribute, kTuple } kind = kName;
  int name = -1;
  std::string attribute;
  std::vector<Target> items;
};

struct MacroNode {
  std::string name;
  std::vector<std::pair<int, std::string>> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  Block body;
};

struct ForNode {
  Target target;
  ExpressionPtr source, condition;
  Block body, otherwise;
};

enum class StatementKind : uint8_t {
  kText,
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,
  kBreak,
  kContinue,
};

struct Statement {
  StatementKind kind;
  int line;
  std::string text;                        // kText
  std::vector<ExpressionPtr> expressions;  // values, conditions; kSetBlock and kFilterBlock: see `filters`
  std::vector<Target> targets;             // kSet, kSetBlock, kWith
  std::vector<Block> blocks;               // kIf: one per condition, then one for else
  std::vector<Postfix> filters;            // kSetBlock, kFilterBlock
  std::unique_ptr<ForNode> loop;           // kFor
  std::unique_ptr<MacroNode> macro;        // kMacro; kCallBlock: the caller
  int name = -1;                           // kMacro
};

// Names are numbered, so that variables are found without comparing text.
struct Template {
  std::string name;  // of the file
  Block body;
  std::vector<std::string> names;
  int loop = -1, caller = -1, varargs = -1, kwargs = -1;  // numbers of these names
};

}  // namespace roundel::jinja
