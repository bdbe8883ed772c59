//! The SELECT clause: from selectors as parsed to expressions over the values of a row. Rules and words are
//! Cassandra's.

use crate::base::collections::{HashMap, HashSet, hasher};
use crate::base::ids::ColumnId;
use crate::cql::ast::{self, FunctionName, Ident, MetadataKind, QualifiedName, Selectable, Selector};
use crate::plan::functions::{self, AggregateFunction, Argument, Function, resolve_aggregate};
use crate::plan::select::argument::{RawSelectable, unknown_type};
use crate::plan::select::expression::Expression;
use crate::plan::select::parts::{element_spec, field_index, is_tuple, parts_of, refusal};
use crate::plan::select::row::{CellPart, Leaf, StoredColumn};
use crate::plan::term::{Binding, Bound, Scope, Term};
use crate::plan::{ColumnSpec, data_type, names};
use crate::protocol::CqlError;
use crate::schema::{Column, ColumnKind, Table};
use crate::types::literal::Assignment;
use crate::types::{CqlType, json};

/// What a SELECT computes from each row or group, ready for binding.
#[derive(Debug)]
pub(super) struct Selection {
    pub leaves: Vec<Leaf>,
    pub constants: Vec<Constant>,
    pub aggregates: Vec<AggregateCall>,
    pub outputs: Vec<Output>,
    /// Whether rows are answered as one JSON text each.
    pub is_json: bool,
    /// The table's columns that it reads, in the order of their first use.
    pub used: Vec<ColumnId>,
}

/// A term of the selection.
#[derive(Debug)]
pub(super) struct Constant {
    pub term: Term,
    /// Of the key of an element or the end of a slice: how a null there is called. Other terms may be null.
    pub null_refused: Option<String>,
}

impl Constant {
    /// The value; an unset end of a slice is no end.
    pub fn bind(&self, binding: &Binding<'_>) -> Result<Option<Vec<u8>>, CqlError> {
        let refuse = |what: &str, of: &str| Err(CqlError::invalid(format!("Invalid {what} {of}")));
        match (self.term.bind(binding)?, &self.null_refused) {
            (Bound::Bytes(bytes), _) => Ok(Some(bytes.into_owned())),
            (Bound::Null, None) => Ok(None),
            (Bound::Null, Some(of)) => refuse("null", of),
            (Bound::Unset, Some(of)) if of.starts_with("value for slice") => Ok(None),
            (Bound::Unset, Some(of)) => refuse("unset", of),
            (Bound::Unset, None) => refuse("unset", "value in the selection clause"),
        }
    }
}

#[derive(Debug)]
pub(super) struct AggregateCall {
    pub function: AggregateFunction,
    /// None of a count of rows.
    pub argument: Option<Expression>,
}

/// One result column.
#[derive(Debug)]
pub(super) struct Output {
    pub expression: Expression,
    pub spec: ColumnSpec,
}

impl Selection {
    /// All columns of the table, as `SELECT *` shows them.
    fn of_all_columns(scope: &mut Scope<'_>, table: &Table) -> Selection {
        let mut builder = Builder::new(scope, table);
        for column in &table.columns {
            let expression = builder.column(column);
            let spec = ColumnSpec::of_column(table, column);
            builder.selection.outputs.push(Output { expression, spec });
        }
        builder.selection
    }

    /// Prepares the SELECT clause of a statement on `table`.
    pub fn prepare(
        clause: &ast::Selection,
        is_json: bool,
        scope: &mut Scope<'_>,
        table: &Table,
    ) -> Result<Selection, CqlError> {
        let mut selection = match clause {
            ast::Selection::All => Selection::of_all_columns(scope, table),
            ast::Selection::Selectors(selectors) => {
                let mut builder = Builder::new(scope, table);
                for selector in selectors {
                    builder.selector(selector)?;
                }
                builder.selection
            }
        };
        selection.is_json = is_json;
        Ok(selection)
    }

    /// How many values and expressions are evaluated for a row.
    pub fn size(&self) -> usize {
        let outputs: usize = self.outputs.iter().map(|output| output.expression.size()).sum();
        let arguments = self.aggregates.iter().filter_map(|call| call.argument.as_ref());
        self.leaves.len() + outputs + self.aggregates.len() + arguments.map(Expression::size).sum::<usize>()
    }

    pub fn is_aggregate(&self) -> bool {
        !self.aggregates.is_empty()
    }

    /// The columns of the result.
    pub fn columns(&self, table: &Table) -> Vec<ColumnSpec> {
        if self.is_json {
            let spec = ColumnSpec {
                keyspace: table.keyspace.clone(),
                table: table.name.clone(),
                name: "[json]".to_owned(),
                ty: CqlType::Text,
            };
            return vec![spec];
        }
        self.outputs.iter().map(|output| output.spec.clone()).collect()
    }

    /// The keys of each row's JSON.
    pub fn json_keys(&self) -> Vec<String> {
        self.outputs.iter().map(|output| json::quote_key(&output.spec.name)).collect()
    }

    /// The columns whose cells it needs, ascending.
    pub fn stored_columns(&self) -> Vec<ColumnId> {
        let mut columns: Vec<ColumnId> = self.leaves.iter().filter_map(Leaf::stored_column).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Whether it reads static columns and of the others none but the partition key.
    pub fn is_of_statics_only(&self, table: &Table) -> bool {
        let kinds = || self.used.iter().filter_map(|id| table.column_by_id(*id)).map(|column| column.kind);
        kinds().any(|kind| kind == ColumnKind::Static)
            && kinds().all(|kind| matches!(kind, ColumnKind::Static | ColumnKind::PartitionKey(_)))
    }
}

/// Gives functions and types the names that result columns show.
struct ResolvedNames<'a> {
    keyspace: &'a str,
}

impl ast::NameResolver for ResolvedNames<'_> {
    fn function(&self, name: &FunctionName) -> String {
        match &name.keyspace {
            Some(keyspace) => format!("{keyspace}.{}", name.name),
            None => format!("system.{}", name.name),
        }
    }

    fn user_type(&self, name: &QualifiedName) -> String {
        match &name.keyspace {
            Some(keyspace) => format!("{keyspace}.{}", name.name),
            None => format!("{}.{}", self.keyspace, name.name),
        }
    }
}

/// The name of a function among the native ones; `None` in a keyspace that has none.
pub(super) fn native_name(name: &FunctionName) -> Option<&str> {
    name.keyspace.as_ref().is_none_or(|keyspace| keyspace.as_str() == "system").then(|| name.name.as_str())
}

/// `count(*)` as the functions know it.
pub(super) const COUNT_ROWS: &str = "count";

/// The type of a metadata function's result.
pub(super) fn metadata_type(kind: MetadataKind, column: &Column, part: CellPart) -> CqlType {
    let one = if kind == MetadataKind::Ttl { CqlType::Int } else { CqlType::BigInt };
    let is_many = matches!(part, CellPart::Whole | CellPart::Slice { .. }) && column.ty.is_multi_cell();
    if is_many && kind != MetadataKind::MaxWriteTime { CqlType::list(one) } else { one }
}

/// What tells one value of a row from the others.
type LeafKey = (ColumnId, Option<(MetadataKind, CellPart)>);

struct Builder<'b, 's> {
    scope: &'b mut Scope<'s>,
    table: &'b Table,
    selection: Selection,
    /// Where each leaf stands among the selection's.
    places: HashMap<LeafKey, usize>,
    used: HashSet<ColumnId>,
    is_in_aggregate: bool,
}

impl<'b, 's> Builder<'b, 's> {
    fn new(scope: &'b mut Scope<'s>, table: &'b Table) -> Self {
        let selection = Selection {
            leaves: Vec::new(),
            constants: Vec::new(),
            aggregates: Vec::new(),
            outputs: Vec::new(),
            is_json: false,
            used: Vec::new(),
        };
        let (places, used) = (HashMap::with_hasher(hasher()), HashSet::with_hasher(hasher()));
        Builder { scope, table, selection, places, used, is_in_aggregate: false }
    }

    fn selector(&mut self, selector: &Selector) -> Result<(), CqlError> {
        let (expression, ty) = self.build(&selector.selectable, None)?;
        let name = match &selector.alias {
            Some(alias) => alias.to_string(),
            None => {
                let names = ResolvedNames { keyspace: self.scope.keyspace };
                self.shown(&selector.selectable).column_name(&names)
            }
        };
        let spec = self.spec(name, ty);
        self.selection.outputs.push(Output { expression, spec });
        Ok(())
    }

    /// A cast to the type that its operand has already is not shown.
    fn shown<'a>(&self, selectable: &'a Selectable) -> &'a Selectable {
        match selectable {
            Selectable::Cast { operand, to }
                if self.raw(operand).exact_type().ok().flatten() == Some(to.cql_type()) =>
            {
                self.shown(operand)
            }
            other => other,
        }
    }

    fn spec(&self, name: impl Into<String>, ty: CqlType) -> ColumnSpec {
        ColumnSpec { keyspace: self.table.keyspace.clone(), table: self.table.name.clone(), name: name.into(), ty }
    }

    fn raw<'a>(&'a self, selectable: &'a Selectable) -> RawSelectable<'a> {
        let (schema, keyspace, memo) = (self.scope.schema, self.scope.keyspace, self.scope.memo());
        RawSelectable { selectable, table: self.table, schema, keyspace, memo }
    }

    fn column(&mut self, column: &Column) -> Expression {
        let leaf = Leaf::of(self.table, column);
        self.leaf(leaf, column)
    }

    fn leaf(&mut self, leaf: Leaf, column: &Column) -> Expression {
        if self.used.insert(column.id) {
            self.selection.used.push(column.id);
        }
        let what = match &leaf {
            Leaf::Metadata { kind, part, .. } => Some((*kind, *part)),
            _ => None,
        };
        let leaves = &mut self.selection.leaves;
        let at = *self.places.entry((column.id, what)).or_insert_with(|| {
            leaves.push(leaf);
            leaves.len() - 1
        });
        Expression::Leaf(at)
    }

    fn constant(
        &mut self,
        term: &ast::Term,
        receiver: &ColumnSpec,
        null_refused: Option<String>,
    ) -> Result<usize, CqlError> {
        let term = Term::prepare(term, receiver, self.scope)?;
        self.selection.constants.push(Constant { term, null_refused });
        Ok(self.selection.constants.len() - 1)
    }

    /// The expression and its type. `receiver` is what takes its value, where that is known.
    fn build(
        &mut self,
        selectable: &Selectable,
        receiver: Option<&ColumnSpec>,
    ) -> Result<(Expression, CqlType), CqlError> {
        match selectable {
            Selectable::Column(name) => {
                let column = names::column(self.table, name)?;
                Ok((self.column(column), column.ty.clone()))
            }
            Selectable::Term(term) => {
                let receiver = receiver.ok_or_else(|| unknown_type(selectable))?;
                Ok((Expression::Constant(self.constant(term, receiver, None)?), receiver.ty.clone()))
            }
            Selectable::CountRows => self.aggregate(COUNT_ROWS, &[])?.ok_or_else(|| unknown_type(selectable)),
            Selectable::Function { name, args } => self.function(name, args, receiver),
            Selectable::Cast { operand, to } => {
                let (argument, from) = self.build(operand, None)?;
                let function = functions::resolve_cast(&from, &to.cql_type())?;
                let ty = function.result_type().clone();
                Ok((Expression::Call { function: Box::new(function), arguments: vec![argument] }, ty))
            }
            Selectable::Metadata { kind, column, selected } => self.metadata(*kind, column, selected),
            Selectable::Operation { left, operator, right } => {
                let function = {
                    let (left, right) = (self.raw(left), self.raw(right));
                    functions::resolve_operator(*operator, &left, &right, receiver.map(|to| &to.ty))?
                };
                self.call(function, [&**left, &**right])
            }
            Selectable::Negation(operand) => {
                let function = functions::resolve_negation(&self.raw(operand), receiver.map(|to| &to.ty))?;
                self.call(function, [&**operand])
            }
            Selectable::Field { of, field } => self.field(of, field),
            Selectable::Element { of, key } => self.element(of, key),
            Selectable::Slice { of, from, to } => self.slice(of, from.as_ref(), to.as_ref()),
            Selectable::TypeHint { data_type, operand } => {
                let ty = data_type::resolve(data_type, self.scope.schema, self.scope.keyspace)?;
                if self.raw(operand).assignment(&ty) == Assignment::No {
                    return Err(CqlError::invalid(format!("Cannot cast value {operand} to type {ty}")));
                }
                let receiver = self.spec("[selection]", ty.clone());
                Ok((self.build(operand, Some(&receiver))?.0, ty))
            }
            Selectable::Parenthesized(items) if items.len() == 1 && !is_tuple(receiver) => {
                let inner = items.first().ok_or_else(|| unknown_type(selectable))?;
                self.build(inner, receiver)
            }
            Selectable::Parenthesized(_) | Selectable::List(_) | Selectable::Set(_) | Selectable::Map(_) => {
                self.composed(selectable, receiver)
            }
        }
    }

    fn function(
        &mut self,
        name: &FunctionName,
        arguments: &[Selectable],
        receiver: Option<&ColumnSpec>,
    ) -> Result<(Expression, CqlType), CqlError> {
        let unknown = || CqlError::invalid(format!("Unknown function '{name}'"));
        let native = native_name(name).ok_or_else(unknown)?;
        if native == "token" {
            return self.token(arguments);
        }
        if let Some(aggregate) = self.aggregate(&name.to_string(), arguments)? {
            return Ok(aggregate);
        }
        let function = {
            let raws: Vec<RawSelectable<'_>> = arguments.iter().map(|argument| self.raw(argument)).collect();
            for raw in &raws {
                raw.exact_type()?;
            }
            let raws: Vec<&dyn Argument> = raws.iter().map(|raw| raw as &dyn Argument).collect();
            functions::resolve(&name.to_string(), &raws, receiver.map(|to| &to.ty))?
        };
        self.call(function.ok_or_else(unknown)?, arguments)
    }

    fn call<'x>(
        &mut self,
        function: Function,
        arguments: impl IntoIterator<Item = &'x Selectable>,
    ) -> Result<(Expression, CqlType), CqlError> {
        let mut built = Vec::new();
        for (argument, ty) in arguments.into_iter().zip(function.argument_types()) {
            let receiver = self.spec("[selection]", ty.clone());
            built.push(self.build(argument, Some(&receiver))?.0);
        }
        let ty = function.result_type().clone();
        Ok((Expression::Call { function: Box::new(function), arguments: built }, ty))
    }

    /// A call of an aggregate; `None` where the name is of none.
    fn aggregate(&mut self, called: &str, arguments: &[Selectable]) -> Result<Option<(Expression, CqlType)>, CqlError> {
        let function = {
            let raws: Vec<RawSelectable<'_>> = arguments.iter().map(|argument| self.raw(argument)).collect();
            let raws: Vec<&dyn Argument> = raws.iter().map(|raw| raw as &dyn Argument).collect();
            resolve_aggregate(called, &raws)?
        };
        let Some(function) = function else { return Ok(None) };
        if self.is_in_aggregate {
            return Err(CqlError::invalid("aggregate functions cannot be used as arguments of aggregate functions"));
        }
        let mut argument = None;
        if let (Some(selectable), Some(ty)) = (arguments.first(), &function.argument) {
            let receiver = self.spec("[selection]", ty.clone());
            self.is_in_aggregate = true;
            let built = self.build(selectable, Some(&receiver));
            self.is_in_aggregate = false;
            argument = Some(built?.0);
        }
        let ty = function.result.clone();
        self.selection.aggregates.push(AggregateCall { function, argument });
        Ok(Some((Expression::Aggregate(self.selection.aggregates.len() - 1), ty)))
    }

    fn token(&mut self, arguments: &[Selectable]) -> Result<(Expression, CqlType), CqlError> {
        let types: Vec<CqlType> = self.table.partition_key().map(|column| column.ty.clone()).collect();
        if types.len() != arguments.len() {
            return Err(CqlError::invalid(format!(
                "Invalid number of arguments in call to function system.token: {} required but {} provided",
                types.len(),
                arguments.len()
            )));
        }
        let mut parts = Vec::with_capacity(types.len());
        for (at, (argument, ty)) in arguments.iter().zip(types).enumerate() {
            let raw = self.raw(argument);
            raw.exact_type()?;
            if raw.assignment(&ty) == Assignment::No {
                return Err(CqlError::invalid(format!(
                    "Type error: {argument} cannot be passed as argument {at} of function system.token of type {ty}"
                )));
            }
            let receiver = self.spec("[selection]", ty);
            parts.push(self.build(argument, Some(&receiver))?.0);
        }
        Ok((Expression::Token(parts), CqlType::BigInt))
    }

    fn metadata(
        &mut self,
        kind: MetadataKind,
        name: &Ident,
        selected: &Selectable,
    ) -> Result<(Expression, CqlType), CqlError> {
        let column = names::column(self.table, name)?;
        if matches!(column.kind, ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. }) {
            return Err(CqlError::invalid(format!(
                "Cannot use selection function {} on PRIMARY KEY part {}",
                kind.name(),
                column.name
            )));
        }
        let part = self.cell_part(column, selected)?;
        let leaf = Leaf::Metadata { kind, column: StoredColumn::of(column), part };
        Ok((self.leaf(leaf, column), metadata_type(kind, column, part)))
    }

    fn cell_part(&mut self, column: &Column, selected: &Selectable) -> Result<CellPart, CqlError> {
        let receiver = ColumnSpec::of_column(self.table, column);
        match selected {
            Selectable::Field { field, .. } => {
                let at = field_index(&column.name, &column.ty, field)?;
                Ok(CellPart::Field(u16::try_from(at).unwrap_or(u16::MAX)))
            }
            Selectable::Element { key, .. } => {
                let key_spec = element_spec("Element", &receiver)?;
                Ok(CellPart::Element(self.constant(key, &key_spec, refusal("element", &receiver.name))?))
            }
            Selectable::Slice { from, to, .. } => {
                let key_spec = element_spec("Slice", &receiver)?;
                let (from, to) = self.bounds(from.as_ref(), to.as_ref(), &key_spec, &receiver.name)?;
                Ok(CellPart::Slice { from, to })
            }
            _ => Ok(CellPart::Whole),
        }
    }

    fn field(&mut self, of: &Selectable, field: &Ident) -> Result<(Expression, CqlType), CqlError> {
        let (expression, ty) = self.build(of, None)?;
        let at = field_index(&of.to_string(), &ty, field)?;
        let field_type = ty.as_udt().and_then(|udt| udt.fields.get(at)).map(|(_, ty)| ty.clone());
        let field_type = field_type.ok_or_else(|| unknown_type(of))?;
        Ok((Expression::Field { of: Box::new(expression), ty, at }, field_type))
    }

    fn element(&mut self, of: &Selectable, key: &ast::Term) -> Result<(Expression, CqlType), CqlError> {
        let (expression, ty) = self.build(of, None)?;
        let receiver = self.spec(of.to_string(), ty.clone());
        let key_spec = element_spec("Element", &receiver)?;
        let key = self.constant(key, &key_spec, refusal("element", &receiver.name))?;
        let result = match ty.unfrozen() {
            CqlType::Map(_, value) => (**value).clone(),
            _ => key_spec.ty,
        };
        Ok((Expression::Element { of: Box::new(expression), ty, key }, result))
    }

    fn slice(
        &mut self,
        of: &Selectable,
        from: Option<&ast::Term>,
        to: Option<&ast::Term>,
    ) -> Result<(Expression, CqlType), CqlError> {
        let (expression, ty) = self.build(of, None)?;
        let receiver = self.spec(of.to_string(), ty.clone());
        let key_spec = element_spec("Slice", &receiver)?;
        let (from, to) = self.bounds(from, to, &key_spec, &receiver.name)?;
        Ok((Expression::Slice { of: Box::new(expression), ty: ty.clone(), from, to }, ty))
    }

    fn bounds(
        &mut self,
        from: Option<&ast::Term>,
        to: Option<&ast::Term>,
        key_spec: &ColumnSpec,
        name: &str,
    ) -> Result<(Option<usize>, Option<usize>), CqlError> {
        let from = from.map(|from| self.constant(from, key_spec, refusal("slice", name))).transpose()?;
        let to = to.map(|to| self.constant(to, key_spec, refusal("slice", name))).transpose()?;
        Ok((from, to))
    }

    /// A list, set, map, tuple, user type or vector of selected parts.
    fn composed(
        &mut self,
        selectable: &Selectable,
        receiver: Option<&ColumnSpec>,
    ) -> Result<(Expression, CqlType), CqlError> {
        let ty = match receiver {
            Some(receiver) => receiver.ty.clone(),
            None => self.raw(selectable).exact_type()?.ok_or_else(|| unknown_type(selectable))?,
        };
        let receiver = self.spec(receiver.map_or("[selection]", |receiver| receiver.name.as_str()), ty.clone());
        let wanted = parts_of(selectable, &ty).ok_or_else(|| {
            CqlError::invalid(format!("Invalid literal {selectable} for {} of type {ty}", receiver.name))
        })?;
        let mut parts = Vec::with_capacity(wanted.len());
        for (part, part_type) in wanted {
            let Some(part) = part else {
                parts.push(self.null(&receiver.renamed("[selection]", part_type))?);
                continue;
            };
            if self.raw(part).assignment(&part_type) == Assignment::No {
                return Err(CqlError::invalid(format!(
                    "Invalid literal {selectable} for {}: value {part} is not of type {part_type}",
                    receiver.name
                )));
            }
            parts.push(self.build(part, Some(&receiver.value_spec(&part_type)))?.0);
        }
        Ok((Expression::Pack { ty: ty.clone(), parts }, ty))
    }

    fn null(&mut self, receiver: &ColumnSpec) -> Result<Expression, CqlError> {
        Ok(Expression::Constant(self.constant(&ast::Term::Null, receiver, None)?))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use crate::plan::select::testing::Model;
    use crate::protocol::Value;

    fn model() -> Model {
        let mut model = Model::new(&[
            "CREATE TYPE ks.ty (a int, b text)",
            "CREATE TABLE t (k int, c int, v int, w text, m map<int, text>, s set<text>, l list<int>, u ty, \
             f frozen<ty>, PRIMARY KEY (k, c))",
        ]);
        model.write(
            "INSERT INTO t (k, c, v, w, m, s, l, u, f) VALUES (1, 2, 3, 'x', {4: 'd', 6: 'f'}, {'d', 'e'}, [7, 8], \
             {a: 1, b: 'y'}, {b: 'z'}) USING TIMESTAMP 1000",
        );
        model
    }

    /// `name: type = value` of each column, or the error.
    fn answer(cql: &str) -> String {
        match model().select(cql, &[], None) {
            Ok(answer) => {
                let columns = answer.columns.iter().map(|(name, ty)| format!("{name}: {ty}"));
                let row = answer.rows.first().cloned().unwrap_or_default();
                let columns: Vec<String> =
                    columns.zip(row).map(|(column, value)| format!("{column} = {value}")).collect();
                columns.join(" | ")
            }
            Err(error) => error.message().to_owned(),
        }
    }

    fn check(selectors: &str, expected: &str) {
        assert_eq!(answer(&format!("SELECT {selectors} FROM t")), expected, "{selectors}");
    }

    #[test]
    fn columns_and_aliases() {
        check("k, k, v AS k", "k: int = 1 | k: int = 1 | k: int = 3");
        check("v AS \"V\", w AS W", "V: int = 3 | w: text = 'x'");
        check("nosuch", "Undefined column name nosuch in table ks.t");
        check("t.k", "Undefined column name t in table ks.t");
    }

    #[test]
    fn terms_need_a_type() {
        let unknown = |term: &str| {
            format!("Cannot infer type for term {term} in selection clause (try using a cast to force a type)")
        };
        check("1", &unknown("1"));
        check("null", &unknown("NULL"));
        check("[1, 2]", &unknown("[1, 2]"));
        check("[k, v], {k: w}", &unknown("{k: w}"));
        check("(int) 1, (text) 'x'", "(int)1: int = 1 | (text)'x': text = 'x'");
        check("(list<int>) [1, 2]", "(list<int>)[1, 2]: list<int> = [1, 2]");
        check("(map<int, int>) {1: 2}", "(map<int, int>){1: 2}: map<int, int> = {1: 2}");
        check("(ty) {a: 1}", "(ks.ty){a: 1}: ty = {a: 1, b: null}");
        check("[v, k, 5]", "[v, k, 5]: list<int> = [3, 1, 5]");
        check("{v, k}", "{v, k}: set<int> = {1, 3}");
        check("(k, w)", "(k, w): frozen<tuple<int, text>> = (1, 'x')");
        check("(int) 'x'", "Cannot cast value 'x' to type int");
        check("(vector<int, 2>) [k, v]", "(vector<int, 2>)[k, v]: vector<int, 2> = [1, 3]");
    }

    #[test]
    fn functions_and_arithmetic() {
        check("intAsBlob(v)", "system.intasblob(v): blob = 0x00000003");
        check("system.int_as_blob(v) AS b", "b: blob = 0x00000003");
        check("v + c * 2, -v", "v + c * 2: int = 7 | -v: int = -3");
        check("1 + 1", "1 + 1: int = 2");
        check(
            "token(k), token(null)",
            "system.token(k): bigint = -4069959284402364209 | system.token(NULL): bigint = null",
        );
        check("nosuch(v)", "Unknown function 'nosuch'");
        check("ks.nosuch(v)", "Unknown function 'ks.nosuch'");
        check(
            "int_as_blob(w)",
            "Type error: w cannot be passed as argument 0 of function system.int_as_blob of type int",
        );
        check("token(k, v)", "Invalid number of arguments in call to function system.token: 1 required but 2 provided");
        check("v + w", "the '+' operation is not supported between v and w");
        check(
            "v + null",
            "Ambiguous '+' operation with args v and NULL: use type hint to disambiguate, example '(int) ?'",
        );
    }

    /// A cast to the type that is there already shows what it was given.
    #[test]
    fn casts() {
        check("CAST(v AS text)", "cast(v as text): text = '3'");
        check("CAST(CAST(v AS text) AS text)", "cast(v as text): text = '3'");
        check("CAST(v AS int)", "v: int = 3");
    }

    #[test]
    fn aggregates_have_the_values_of_functions() {
        check("count(*), count(1), COUNT(w) AS n", "count: bigint = 1 | count: bigint = 1 | n: bigint = 1");
        check("sum(v + 1) + 1", "system.sum(v + 1) + 1: int = 5");
        check("abs(sum(v))", "system.abs(system.sum(v)): int = 3");
        check("max(count(v))", "aggregate functions cannot be used as arguments of aggregate functions");
        assert_eq!(
            answer("SELECT w, count(*), sum(v), min(v) FROM t WHERE k = 9"),
            "w: text = null | count: bigint = 0 | system.sum(v): int = 0 | system.min(v): int = null"
        );
    }

    #[test]
    fn parts_of_values() {
        check(
            "m[4], m[5], s['d'], s['x']",
            "m[4]: text = 'd' | m[5]: text = null | s['d']: text = 'd' | s['x']: text = null",
        );
        check("m[5..], s[..'d']", "m[5..]: map<int, text> = {6: 'f'} | s[..'d']: set<text> = {'d'}");
        check("u.a, f.a, f.b", "u.a: int = 1 | f.a: int = null | f.b: text = 'z'");
        check("l[0]", "Element selection is only allowed on sets and maps, but l is a list");
        check("k[1]", "Invalid element selection: k is of type int is not a collection");
        check("m['x']", "Invalid STRING constant (x) for \"key(m)\" of type int");
        check("m[null]", "Invalid null value for element selection on m");
        check("u.nosuch", "u of type ty has no field nosuch");
        check("k.a", "Invalid field selection: k of type int is not a user type");
    }

    #[test]
    fn times_of_writes() {
        check(
            "writetime(v), maxwritetime(m), ttl(w)",
            "writetime(v): bigint = 1000 | maxwritetime(m): bigint = 1000 | ttl(w): int = null",
        );
        check(
            "writetime(m), writetime(m[4])",
            "writetime(m): list<bigint> = [1000, 1000] | writetime(m[4]): bigint = 1000",
        );
        check(
            "writetime(u), writetime(u.a), writetime(f)",
            "writetime(u): list<bigint> = [1000, 1000] | writetime(u.a): bigint = 1000 | writetime(f): bigint = 1000",
        );
        check("writetime(v) + 1", "writetime(v) + 1: bigint = 1001");
        check("writetime(c)", "Cannot use selection function writetime on PRIMARY KEY part c");
        check("ttl(k)", "Cannot use selection function ttl on PRIMARY KEY part k");
    }

    #[test]
    fn rows_as_json() {
        check("JSON k, v AS vv, w AS \"W\"", "[json]: text = '{\"k\": 1, \"vv\": 3, \"\\\"W\\\"\": \"x\"}'");
        check("JSON count(*), m", "[json]: text = '{\"count\": 1, \"m\": {\"4\": \"d\", \"6\": \"f\"}}'");
        check("JSON DISTINCT k", "[json]: text = '{\"k\": 1}'");
    }

    #[test]
    fn markers_in_the_selection() {
        let (prepared, variables, _) = model().prepare("SELECT m[?], (int) ?, abs((int) ?) FROM t").unwrap();
        let names: Vec<String> = variables.iter().map(|spec| format!("{} {}", spec.name, spec.ty)).collect();
        assert_eq!(names, ["key(m) int", "[selection] int", "[selection] int"]);
        assert_eq!(prepared.columns[0].name, "m[?]");
        let (_, variables, _) = model().prepare("SELECT int_as_blob(?), token(?) FROM t").unwrap();
        assert!(variables.iter().all(|spec| spec.name == "[selection]"), "{variables:?}");
        let (four, minus) = (4i32.to_be_bytes(), (-5i32).to_be_bytes());
        let values = [Value::Bytes(&four), Value::Null, Value::Bytes(&minus)];
        let answer = model().select("SELECT m[?], (int) ?, abs((int) ?) FROM t", &values, None).unwrap();
        assert_eq!(answer.rows, [["'d'", "null", "5"]]);
        let error = model().prepare("SELECT ? FROM t").unwrap_err();
        assert!(error.message().starts_with("Cannot infer type for term ? in selection clause"), "{error}");
    }

    #[test]
    fn every_column_of_a_wide_table_is_named_at_once() {
        let names: Vec<String> = (0..9_999).map(|at| format!("c{}", at * 7 % 9_999)).collect();
        let model = Model::new(&[&format!("CREATE TABLE w (k int PRIMARY KEY, {} int)", names.join(" int, "))]);
        let list = names.join(", ");
        let (prepared, ..) = model.prepare(&format!("SELECT {list}, {list}, writetime(c1) FROM w")).unwrap();
        assert_eq!((prepared.columns.len(), prepared.columns[9_999].name.as_str()), (2 * 9_999 + 1, "c0"));
        let conditions = names.iter().rev().map(|name| format!("{name} = 1")).collect::<Vec<_>>().join(" AND ");
        assert!(model.prepare(&format!("SELECT k FROM w WHERE {conditions} ALLOW FILTERING")).is_ok());
    }
}
