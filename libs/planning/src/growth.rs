//! Bounds the size of the values that are created while a text is rendered. The engine limits instructions but not memory, and a hundred
//! instructions can double a text twenty times. So an upper bound is derived from the syntax before the text is compiled: a multiple of the
//! size of the variables, plus the size of the constants. A text without such a bound is refused, and one that nests values too deeply or
//! could put a namespace into itself.

mod size;

use std::collections::{BTreeMap, BTreeSet};

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, ForLoop, Stmt, UnaryOpKind};
use minijinja::machinery::{Span, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;

use crate::filters::{LONGEST, ResultSize, added_levels, result_size};
use crate::nesting;
use size::refused;

pub(crate) use size::{Growth, UnboundedText};

/// Depth of nested loops. The body of each loop is analysed twice, so every level doubles the work.
const MOST_LOOPS: usize = 6;
/// Repetitions of a text that a template multiplies by a number.
const MOST_REPEATED: f64 = 1_000.0;
/// Size of a list element in addition to its value, in bytes.
const ELEMENT: u64 = 32;
/// The engine's limit on the elements of a `range`.
const RANGE: u64 = 100_000;

/// The bound is zero for a text with invalid syntax, because the engine reports the error later.
pub(crate) fn bound(text: &str) -> Result<Growth, UnboundedText> {
    // The parser recurses, so limit the nesting of the text before it is parsed.
    nesting::check(text)?;
    let Ok(Stmt::Template(template)) = parse(text, "text", SyntaxConfig::default()) else {
        return Ok(Growth::NOTHING);
    };
    let mut walk = Walk::default();
    walk.statements(&template.children)?;
    Ok(walk.kept.and(walk.largest))
}

#[derive(Default)]
struct Walk<'a> {
    variables: BTreeMap<&'a str, Growth>,
    /// Variables whose value is always a namespace.
    namespaces: BTreeSet<&'a str>,
    /// Total size of the values assigned so far, including replaced ones.
    kept: Growth,
    /// Largest intermediate value of an expression.
    largest: Growth,
    loops: usize,
}

impl<'a> Walk<'a> {
    fn statements(&mut self, statements: &[Stmt<'a>]) -> Result<(), UnboundedText> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Stmt<'a>) -> Result<(), UnboundedText> {
        match statement {
            Stmt::Template(template) => self.statements(&template.children),
            Stmt::EmitRaw(_) => Ok(()),
            Stmt::EmitExpr(emit) => self.used(&emit.expr),
            Stmt::ForLoop(each) => self.for_loop(each, statement_span(statement)),
            Stmt::IfCond(choice) => {
                self.used(&choice.expr)?;
                self.statements(&choice.true_body)?;
                self.statements(&choice.false_body)
            }
            Stmt::WithBlock(with) => {
                for (target, value) in &with.assignments {
                    self.set(target, value)?;
                }
                self.statements(&with.body)
            }
            Stmt::Set(set) => self.set(&set.target, &set.expr),
            Stmt::AutoEscape(escape) => self.statements(&escape.body),
            Stmt::Do(call) => {
                let arguments = self.arguments(&call.call.args)?;
                self.largest = self.largest.or(arguments);
                Ok(())
            }
            other => {
                let advice = "collecting text (a set block or a filter block) has no bound; write it where it is output";
                refused(statement_span(other), advice)
            }
        }
    }

    /// Analyses the body of a loop twice. If the second analysis changes the bound of a variable, the variable grows with every pass and
    /// has no bound.
    fn for_loop(&mut self, each: &ForLoop<'a>, span: Span) -> Result<(), UnboundedText> {
        if each.recursive {
            return refused(span, "a recursive loop has no bound; use nested loops");
        }
        if self.loops == MOST_LOOPS {
            return refused(span, format!("at most {MOST_LOOPS} loops can be nested"));
        }
        self.loops += 1;
        let items = self.value(&each.iter)?;
        self.assign(&each.target, if is_range(&each.iter) { Growth::NOTHING } else { items })?;
        each.filter_expr.iter().try_for_each(|filter| self.used(filter))?;
        self.statements(&each.body)?;
        let once = self.variables.clone();
        let kept = self.kept;
        self.statements(&each.body)?;
        self.kept = kept;
        let grown = self.variables.iter().find(|(name, growth)| once.get(*name) != Some(growth));
        if let Some((name, _)) = grown {
            let advice = format!(
                "{name} grows with every pass of the loop; add only numbers (such as item.price|float), or use join"
            );
            return refused(span, advice);
        }
        self.loops -= 1;
        self.statements(&each.else_body)
    }

    fn used(&mut self, expression: &Expr<'a>) -> Result<(), UnboundedText> {
        self.value(expression).map(drop)
    }

    fn set(&mut self, target: &Expr<'a>, value: &Expr<'a>) -> Result<(), UnboundedText> {
        let growth = self.value(value)?;
        if let Expr::Var(variable) = target {
            let is_first = !self.variables.contains_key(variable.id);
            if is_call_of(value, "namespace") && (is_first || self.namespaces.contains(variable.id)) {
                self.namespaces.insert(variable.id);
            } else {
                self.namespaces.remove(variable.id);
            }
        }
        // A reference shares the value of its variable and needs no memory.
        if !is_reference(value) {
            self.kept = self.kept.and(growth);
        }
        self.assign(target, growth)
    }

    /// The variable keeps its largest bound over all branches.
    fn assign(&mut self, target: &Expr<'a>, growth: Growth) -> Result<(), UnboundedText> {
        match target {
            Expr::Var(variable) => {
                let known = self.variables.entry(variable.id).or_default();
                *known = known.or(growth);
                Ok(())
            }
            Expr::List(list) => list.items.iter().try_for_each(|item| self.assign(item, growth)),
            Expr::Tuple(tuple) => tuple.items.iter().try_for_each(|item| self.assign(item, growth)),
            // The engine would show a namespace that contains itself without end.
            Expr::GetAttr(_) if growth.has_namespace() => refused(
                target.span(),
                "a namespace cannot contain a namespace; use variables of different names",
            ),
            // A namespace counts as one variable, whose bound is that of its largest member.
            Expr::GetAttr(member) => self.assign(&member.expr, growth),
            other => refused(other.span(), "this cannot be set"),
        }
    }

    fn arguments(&mut self, arguments: &[CallArg<'a>]) -> Result<Growth, UnboundedText> {
        arguments.iter().try_fold(Growth::NOTHING, |all, argument| {
            let (CallArg::Pos(value)
            | CallArg::Kwarg(_, value)
            | CallArg::PosSplat(value)
            | CallArg::KwargSplat(value)) = argument;
            Ok(all.and(self.value(value)?))
        })
    }

    fn all(&mut self, items: &[Expr<'a>]) -> Result<Growth, UnboundedText> {
        let all = items.iter().try_fold(Growth::constant(ELEMENT), |all, item| {
            Ok(all.and(self.value(item)?).and(Growth::constant(ELEMENT)))
        });
        all.map(|all: Growth| all.inside(1))
    }

    fn optional(&mut self, expression: Option<&Expr<'a>>) -> Result<Growth, UnboundedText> {
        expression.map_or(Ok(Growth::NOTHING), |expression| self.value(expression))
    }

    /// Updates `largest` for the expression and its parts.
    fn value(&mut self, expression: &Expr<'a>) -> Result<Growth, UnboundedText> {
        let growth = self.parts(expression)?.checked(expression.span())?;
        if !is_reference(expression) {
            self.largest = self.largest.or(growth);
        }
        Ok(growth)
    }

    fn parts(&mut self, expression: &Expr<'a>) -> Result<Growth, UnboundedText> {
        match expression {
            Expr::Var(variable) => Ok(self.variables.get(variable.id).copied().unwrap_or(Growth::VARIABLE)),
            Expr::Const(constant) => {
                Ok(Growth::constant(constant.value.as_str().map_or(0, |text| text.len() as u64)))
            }
            Expr::Slice(slice) => {
                for part in [&slice.start, &slice.stop, &slice.step] {
                    self.optional(part.as_ref())?;
                }
                Ok(self.value(&slice.expr)?.inside(1))
            }
            Expr::UnaryOp(unary) => self.value(&unary.expr).map(|_| Growth::NOTHING),
            Expr::BinOp(_) => self.operation(expression),
            Expr::Compare(compare) => {
                self.value(&compare.expr)?;
                compare.ops.iter().try_for_each(|operand| self.value(&operand.expr).map(drop))?;
                Ok(Growth::NOTHING)
            }
            Expr::IfExpr(choice) => {
                self.value(&choice.test_expr)?;
                Ok(self.value(&choice.true_expr)?.or(self.optional(choice.false_expr.as_ref())?))
            }
            Expr::Filter(_) => self.filtered(expression),
            Expr::Test(test) => {
                self.value(&test.expr)?;
                self.arguments(&test.args).map(|_| Growth::NOTHING)
            }
            Expr::GetAttr(member) => {
                let growth = self.value(&member.expr)?;
                Ok(if self.is_namespace(&member.expr) { growth.of_namespace() } else { growth })
            }
            Expr::GetItem(item) => {
                self.value(&item.subscript_expr)?;
                self.value(&item.expr)
            }
            Expr::Call(_) => self.call(expression),
            Expr::List(list) => self.all(&list.items),
            Expr::Tuple(tuple) => self.all(&tuple.items),
            Expr::Map(map) => Ok(self.all(&map.keys)?.and(self.all(&map.values)?)),
        }
    }

    fn operation(&mut self, expression: &Expr<'a>) -> Result<Growth, UnboundedText> {
        let Expr::BinOp(operation) = expression else { return Ok(Growth::NOTHING) };
        let left = self.value(&operation.left)?;
        let right = self.value(&operation.right)?;
        let numbers = [is_number(&operation.left), is_number(&operation.right)];
        match operation.op {
            BinOpKind::Concat => Ok(left.and(right).and(Growth::constant(ELEMENT)).flat()),
            // The result is a number, because the engine can add a number only to another number.
            BinOpKind::Add if numbers.contains(&true) => Ok(Growth::NOTHING),
            BinOpKind::Add => Ok(left.and(right).and(Growth::constant(ELEMENT)).inside(1)),
            BinOpKind::Mul if numbers == [true, true] => Ok(Growth::NOTHING),
            BinOpKind::Mul => {
                let (number, repeated) =
                    if numbers[0] { (&operation.left, right) } else { (&operation.right, left) };
                match constant_number(number) {
                    Some(number) if number.fract() != 0.0 || number < 0.0 => Ok(Growth::NOTHING),
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "it is at most 1,000"
                    )]
                    Some(number) if number <= MOST_REPEATED => Ok(repeated.times(number as u64)),
                    _ => refused(
                        expression.span(),
                        "* repeats texts; write the factors as numbers, such as (price|float) * (count|float)",
                    ),
                }
            }
            BinOpKind::ScAnd | BinOpKind::ScOr => Ok(left.or(right)),
            _ => Ok(Growth::NOTHING),
        }
    }

    fn is_namespace(&self, expression: &Expr<'a>) -> bool {
        matches!(expression, Expr::Var(variable) if self.namespaces.contains(variable.id))
    }

    fn filtered(&mut self, expression: &Expr<'a>) -> Result<Growth, UnboundedText> {
        let Expr::Filter(filter) = expression else { return Ok(Growth::NOTHING) };
        let Some(filtered) = &filter.expr else {
            return refused(
                expression.span(),
                "a filter block has no bound; write the filter where its input is output",
            );
        };
        let input = self.value(filtered)?.and(self.arguments(&filter.args)?);
        let input = added_levels(filter.name).map_or_else(|| input.flat(), |levels| input.inside(levels));
        match result_size(filter.name) {
            Some(ResultSize::Number) => Ok(Growth::NOTHING),
            Some(ResultSize::Times(number)) => Ok(input.times(number).and(Growth::constant(ELEMENT))),
            Some(ResultSize::Items) if is_list(filtered) => Ok(input.and(Growth::constant(ELEMENT))),
            Some(ResultSize::Items) => Ok(input.times(ELEMENT)),
            Some(ResultSize::Limited) => Ok(input.limited_to(LONGEST as u64)),
            Some(ResultSize::PerItem) => match filter.args.first() {
                Some(CallArg::Pos(Expr::Const(name))) => match name.value.as_str().and_then(result_size) {
                    Some(ResultSize::Number | ResultSize::Items) => Ok(input.times(ELEMENT)),
                    Some(ResultSize::Times(number)) => Ok(input.times(number.saturating_mul(ELEMENT))),
                    _ => refused(expression.span(), "map cannot use this filter; use a loop"),
                },
                Some(CallArg::Kwarg("attribute", _)) => Ok(input.times(ELEMENT)),
                _ => refused(expression.span(), "map requires the name of a filter, or attribute=\"name\""),
            },
            None => refused(expression.span(), format!("templates have no filter named {}", filter.name)),
        }
    }

    fn call(&mut self, expression: &Expr<'a>) -> Result<Growth, UnboundedText> {
        let Expr::Call(call) = expression else { return Ok(Growth::NOTHING) };
        let arguments = self.arguments(&call.args)?;
        match &call.expr {
            Expr::Var(function) => match function.id {
                "range" => Ok(Growth::constant(RANGE * ELEMENT)),
                "dict" => Ok(arguments.and(Growth::constant(ELEMENT)).inside(1)),
                "namespace" if arguments.has_namespace() => {
                    refused(expression.span(), "a namespace cannot contain a namespace")
                }
                "namespace" => Ok(arguments.and(Growth::constant(ELEMENT)).with_namespace()),
                other => refused(expression.span(), format!("templates have no function named {other}")),
            },
            Expr::GetAttr(method) => Ok(self.value(&method.expr)?.and(arguments).times(ELEMENT).inside(2)),
            other => refused(other.span(), "this cannot be called"),
        }
    }
}

/// True if the expression creates no new value.
fn is_reference(expression: &Expr<'_>) -> bool {
    matches!(expression, Expr::Var(_) | Expr::Const(_) | Expr::GetAttr(_) | Expr::GetItem(_))
}

fn is_range(expression: &Expr<'_>) -> bool {
    is_call_of(expression, "range")
}

fn is_call_of(expression: &Expr<'_>, name: &str) -> bool {
    matches!(expression, Expr::Call(call) if matches!(&call.expr, Expr::Var(function) if function.id == name))
}

/// True if the syntax shows a list. Filters reuse the elements of a list instead of creating new values.
fn is_list(expression: &Expr<'_>) -> bool {
    match expression {
        Expr::List(_) | Expr::Tuple(_) => true,
        Expr::Filter(filter) => {
            matches!(result_size(filter.name), Some(ResultSize::Items | ResultSize::PerItem))
        }
        _ => is_range(expression),
    }
}

fn is_number(expression: &Expr<'_>) -> bool {
    match expression {
        Expr::Const(constant) => constant.value.kind() == ValueKind::Number,
        Expr::UnaryOp(unary) => matches!(unary.op, UnaryOpKind::Neg),
        Expr::BinOp(operation) => match operation.op {
            BinOpKind::Sub | BinOpKind::Div | BinOpKind::FloorDiv | BinOpKind::Rem | BinOpKind::Pow => true,
            BinOpKind::Add => is_number(&operation.left) || is_number(&operation.right),
            BinOpKind::Mul => is_number(&operation.left) && is_number(&operation.right),
            _ => false,
        },
        Expr::Filter(filter) => matches!(result_size(filter.name), Some(ResultSize::Number)),
        Expr::GetAttr(member) => {
            matches!(&member.expr, Expr::Var(variable) if variable.id == "loop")
                && ["index", "index0", "revindex", "revindex0", "length", "depth", "depth0"]
                    .contains(&member.name)
        }
        _ => false,
    }
}

fn constant_number(expression: &Expr<'_>) -> Option<f64> {
    match expression {
        Expr::Const(constant) => f64::try_from(constant.value.clone()).ok(),
        _ => None,
    }
}

fn statement_span(statement: &Stmt<'_>) -> Span {
    match statement {
        Stmt::ForLoop(node) => node.span(),
        Stmt::SetBlock(node) => node.span(),
        Stmt::FilterBlock(node) => node.span(),
        _ => Span::default(),
    }
}
