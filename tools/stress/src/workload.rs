//! What the operations of a run are: their kinds, what each sends, and what a right answer is.

use std::sync::Arc;

use helenus::protocol::client::requests::put_prepare;
use helenus::protocol::client::{Response, ResultBody};
use helenus::protocol::wire::put_bytes;
use helenus::protocol::{ErrorCode, Opcode, ProtocolVersion};

use crate::arguments::{Arguments, Basic, Command, User, Validation};
use crate::connection::{Connection, ConnectionError};
use crate::population::Population;
use crate::profile::{Buffers, Draft, Insert, PlanError, Profile, ProfileError, Query, Table};
use crate::request::{How, Statement, Template, Terms};
use crate::row::Rows;
use crate::schema;

/// Rows of a page of a profile's queries: the Java driver's.
const PAGE_ROWS: i32 = 5_000;

/// Operations that cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("two profiles are called `{0}`: a specname tells them apart")]
    TwoProfiles(String),
    #[error("ops(…): there is no profile `{0}`")]
    NoProfile(String),
    #[error("ops(…): `{operation}` is no query of `{profile}`; it has {known}")]
    NoQuery { operation: String, profile: String, known: String },
    #[error("ops(…): `{operation}` of `{profile}` is not there yet: {why}")]
    NotYet { operation: String, profile: String, why: &'static str },
    #[error("the statement `{statement}` has another id on another node")]
    TwoIds { statement: String },
    #[error("-mode unprepared goes with profiles of one keyspace only")]
    UnpreparedKeyspaces,
}

/// One operation. It makes the same request whenever it is asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub kind: u32,
    /// How many partitions it visits, those at `place` and after.
    pub partitions: u32,
    pub place: u64,
    /// When its latency starts, in nanoseconds since the phase's start.
    pub since_ns: u64,
    pub attempts: u32,
    /// That it sent, or got so far.
    pub rows: u32,
}

/// What became of one attempt.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Good {
        partitions: u64,
        rows: u64,
    },
    /// There are more pages, after this state.
    More {
        rows: u32,
        state: Vec<u8>,
    },
    /// It may be tried again.
    Refused(String),
    /// The same, once the statement is prepared again: the server has forgotten it.
    Forgotten,
    /// The answer is not what was written: trying again would hide it.
    Wrong(String),
}

enum Action {
    Basic(Basic),
    Insert(Insert),
    Query(Query),
}

/// A kind of operation.
pub struct Kind {
    /// As progress and summary call it.
    pub name: String,
    pub weight: f64,
    keyspace: String,
    statement: String,
    /// As the server knows the statement.
    prepared: Statement,
    action: Action,
    template: Template,
}

/// All kinds, in the order of their names, and what they share.
pub struct Workload {
    pub kinds: Vec<Kind>,
    /// What empties the tables.
    pub truncate: Vec<String>,
    population: Population,
    rows: Rows,
    validation: Validation,
    /// The columns that a read gives before those of the row.
    skipped_cells: usize,
    prepares: bool,
    /// Statements can be prepared again while requests are in flight: all are of the keyspace in use.
    prepares_again: bool,
    version: ProtocolVersion,
}

impl Workload {
    /// Makes tables that are missing, and the operations ready; `connection` is any of those that will send.
    pub fn new(arguments: &Arguments, connection: &mut Connection) -> Result<Workload, WorkloadError> {
        let (mut kinds, truncate) = match &arguments.command {
            Command::Basic(basic) => basic_kinds(arguments, &[(*basic, 1.0)], connection)?,
            Command::Mixed(ratios) => basic_kinds(arguments, ratios, connection)?,
            Command::User(user) => user_kinds(arguments, user, connection)?,
        };
        kinds.sort_by(|a, b| a.name.cmp(&b.name));
        let one_keyspace = kinds.iter().all(|kind| kind.keyspace == kinds[0].keyspace);
        if !arguments.mode.prepared && !one_keyspace {
            return Err(WorkloadError::UnpreparedKeyspaces);
        }
        Ok(Workload {
            prepares_again: arguments.mode.prepared && one_keyspace,
            version: connection.version(),
            kinds,
            truncate,
            population: arguments.population.clone(),
            rows: Rows::new(&arguments.columns, arguments.key_bytes, arguments.add.clone()),
            validation: arguments.validation,
            skipped_cells: usize::from(arguments.columns.slice),
            prepares: arguments.mode.prepared,
        })
    }

    pub fn names(&self) -> Vec<String> {
        self.kinds.iter().map(|kind| kind.name.clone()).collect()
    }

    /// Makes another connection ready for all operations.
    pub fn prepare_on(&self, connection: &mut Connection) -> Result<(), WorkloadError> {
        for kind in &self.kinds {
            connection.query(&schema::use_keyspace(&kind.keyspace))?;
            if self.prepares && connection.prepare(&kind.statement)?.id != kind.prepared.id {
                return Err(WorkloadError::TwoIds { statement: kind.statement.clone() });
            }
        }
        Ok(())
    }

    /// Whether a partition is still to be visited at this place.
    pub fn has(&self, place: u64) -> bool {
        self.population.has(place)
    }

    /// The seed of a place; after the end of what is visited, any.
    fn seed_at(&self, place: u64) -> u64 {
        self.population.seed_at(place).unwrap_or_default()
    }

    /// How many partitions an operation of this kind visits, drawn with this seed.
    #[inline]
    pub fn partitions(&self, kind: usize, seed: u64) -> u32 {
        match &self.kinds[kind].action {
            Action::Insert(insert) => insert.partitions(seed),
            _ => 1,
        }
    }

    /// Makes an operation's request in `buffers`, for the page after `state`. Gives its opcode.
    #[inline]
    pub fn put(&self, operation: &mut Operation, state: Option<&[u8]>, buffers: &mut Buffers) -> Opcode {
        buffers.clear();
        let Kind { action, template, .. } = &self.kinds[operation.kind as usize];
        let place = operation.place;
        match action {
            Action::Basic(basic) => {
                let number = self.seed_at(place);
                let Buffers { body, routing_key, .. } = buffers;
                self.rows.put_key(number, routing_key);
                template.begin(state, body);
                match basic {
                    Basic::Write => self.rows.put_values(number, body),
                    Basic::CounterWrite => self.rows.put_increments(place, body),
                    Basic::Read | Basic::CounterRead => {}
                }
                put_bytes(body, Some(routing_key));
                template.end(state, body);
                operation.rows = u32::from(basic.is_write());
                template.opcode
            }
            Action::Insert(insert) => {
                let places = place..place + u64::from(operation.partitions);
                let seeds = places.filter_map(|place| self.population.seed_at(place));
                let (opcode, rows) = insert.put(template, place, seeds, buffers);
                operation.rows = rows;
                opcode
            }
            Action::Query(query) => {
                if state.is_none() {
                    operation.rows = 0;
                }
                let seed = self.seed_at(place);
                template.begin(state, &mut buffers.body);
                query.put_values(place, seed, buffers);
                template.end(state, &mut buffers.body);
                template.opcode
            }
        }
    }

    /// Makes the request that prepares an operation's statement again.
    pub fn put_prepare(&self, operation: &Operation, buffers: &mut Buffers) -> Opcode {
        buffers.clear();
        put_prepare(self.version, &self.kinds[operation.kind as usize].statement, None, &mut buffers.body);
        Opcode::Prepare
    }

    /// What an answer to an operation means.
    pub fn check(&self, operation: &Operation, answer: &Response<'_>, scratch: &mut Vec<u8>) -> Outcome {
        if let Response::Error(error) = answer {
            let (message, number) = (error.message(), error.code().number());
            return match error.code() {
                ErrorCode::Unprepared if self.prepares_again => Outcome::Forgotten,
                // Nothing brings these right.
                ErrorCode::Invalid | ErrorCode::SyntaxError | ErrorCode::Unprepared => {
                    Outcome::Wrong(format!("{message} (0x{number:04x})"))
                }
                _ => Outcome::Refused(format!("{message} (0x{number:04x})")),
            };
        }
        let action = &self.kinds[operation.kind as usize].action;
        let (partitions, sent) = (u64::from(operation.partitions), u64::from(operation.rows));
        match (action, answer) {
            // A conditional insert's row says whether it was applied; both are answers.
            (
                Action::Basic(Basic::Write | Basic::CounterWrite) | Action::Insert(_),
                Response::Result(ResultBody::Void | ResultBody::Rows(_)),
            ) => Outcome::Good { partitions, rows: sent },
            (Action::Query(_), Response::Result(ResultBody::Void)) => Outcome::Good { partitions, rows: 0 },
            (Action::Query(_), Response::Result(ResultBody::Rows(rows))) => {
                let count = sent + rows.row_count as u64;
                match rows.paging_state {
                    Some(state) => {
                        Outcome::More { rows: u32::try_from(count).unwrap_or(u32::MAX), state: state.to_vec() }
                    }
                    None => Outcome::Good { partitions: count.min(1), rows: count },
                }
            }
            (Action::Basic(basic), Response::Result(ResultBody::Rows(rows))) => {
                let count = rows.row_count as u64;
                if self.validation == Validation::Nothing {
                    return Outcome::Good { partitions: count, rows: count };
                }
                if count != 1 {
                    return Outcome::Wrong(format!("{count} rows instead of one"));
                }
                if self.validation == Validation::Bytes && *basic == Basic::Read {
                    let cells = rows.iter().next().unwrap_or_default();
                    let own = cells.get(self.skipped_cells..).unwrap_or_default();
                    if !self.rows.are_of(self.seed_at(operation.place), own, scratch) {
                        return Outcome::Wrong(format!("other bytes than were written: {cells:02x?}"));
                    }
                }
                Outcome::Good { partitions: 1, rows: 1 }
            }
            (_, other) => Outcome::Wrong(format!("an answer of another kind: {other:?}")),
        }
    }

    /// An operation, for people.
    pub fn describe(&self, operation: &Operation) -> String {
        let name = &self.kinds[operation.kind as usize].name;
        match operation.partitions {
            1 => format!("{name} of partition {}", self.seed_at(operation.place)),
            count => format!("{name} of {count} partitions from {}", self.seed_at(operation.place)),
        }
    }
}

/// Prepares a statement, and makes its template for so many values as it turns out to bind.
fn prepared(
    arguments: &Arguments,
    connection: &mut Connection,
    statement: &str,
    page_size: Option<i32>,
) -> Result<(Statement, Template, Vec<helenus::protocol::ColumnSpec>), WorkloadError> {
    let prepared = connection.prepare(statement)?;
    let id = Statement { id: prepared.id, result_metadata_id: prepared.result_metadata_id.unwrap_or_default() };
    let how = if arguments.mode.prepared { How::Prepared(id.clone()) } else { How::Text(statement.to_owned()) };
    let terms = Terms::of(arguments.consistency, page_size);
    let template = Template::new(connection.version(), &how, prepared.variables.len(), terms);
    Ok((id, template, prepared.variables))
}

type Kinds = (Vec<Kind>, Vec<String>);

fn basic_kinds(
    arguments: &Arguments,
    ratios: &[(Basic, f64)],
    connection: &mut Connection,
) -> Result<Kinds, WorkloadError> {
    let keyspace = &arguments.schema.keyspace;
    if arguments.writes() {
        for statement in schema::statements(&arguments.schema, &arguments.columns) {
            connection.query(&statement)?;
        }
    }
    connection.query(&schema::use_keyspace(keyspace))?;
    let mut kinds = Vec::new();
    for (basic, weight) in ratios {
        let statement = schema::statement(*basic, &arguments.columns);
        let (id, template, _) = prepared(arguments, connection, &statement, None)?;
        kinds.push(Kind {
            name: basic.name().into(),
            weight: *weight,
            keyspace: keyspace.clone(),
            statement,
            prepared: id,
            action: Action::Basic(*basic),
            template,
        });
    }
    let truncate = schema::truncate_statements(keyspace);
    Ok((kinds, truncate))
}

fn user_kinds(arguments: &Arguments, user: &User, connection: &mut Connection) -> Result<Kinds, WorkloadError> {
    let mut profiles: Vec<(Profile, Arc<Table>)> = Vec::new();
    for path in &user.profiles {
        let profile = Profile::read(path)?;
        if profiles.iter().any(|(known, _)| known.name == profile.name) {
            return Err(WorkloadError::TwoProfiles(profile.name));
        }
        let table = Arc::new(table_of(&profile, connection)?);
        profiles.push((profile, table));
    }
    let mut kinds = Vec::new();
    for (operation, weight) in &user.operations {
        // The profile's name may have dots of its own.
        let (profile_name, own) = match operation.rsplit_once('.') {
            Some((profile, own)) => (profile, own),
            None => (profiles[0].0.name.as_str(), operation.as_str()),
        };
        let found = profiles.iter().find(|(profile, _)| profile.name == profile_name);
        let (profile, table) = found.ok_or_else(|| WorkloadError::NoProfile(profile_name.to_owned()))?;
        connection.query(&schema::use_keyspace(&profile.keyspace))?;
        let made = user_kind(arguments, profile, table, own, connection)?;
        let (statement, id, action, template) = made;
        let (name, keyspace) = (operation.clone(), profile.keyspace.clone());
        kinds.push(Kind { name, weight: *weight, keyspace, statement, prepared: id, action, template });
    }
    let truncate = profiles.iter().map(|(_, table)| table.truncate_statement()).collect();
    Ok((kinds, truncate))
}

/// Makes the profile's table, where it is missing, and asks the server for its columns.
fn table_of(profile: &Profile, connection: &mut Connection) -> Result<Table, WorkloadError> {
    if let Some(definition) = &profile.keyspace_definition {
        connection.create(definition)?;
    }
    connection.query(&schema::use_keyspace(&profile.keyspace))?;
    for definition in &profile.table_definitions {
        connection.create(definition)?;
    }
    let quoted = |name: &str| format!("'{}'", name.replace('\'', "''"));
    let rows = connection.rows(&format!(
        "SELECT column_name, kind, position, type FROM system_schema.columns WHERE keyspace_name = {} AND table_name \
         = {}",
        quoted(&profile.keyspace),
        quoted(&profile.table)
    ))?;
    let text = |cell: Option<&Option<Vec<u8>>>| {
        cell.and_then(Option::as_deref).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    };
    let draft = |row: &Vec<Option<Vec<u8>>>| {
        let position = row.get(2).and_then(Option::as_deref).and_then(|bytes| bytes.try_into().ok());
        Draft {
            name: text(row.first()),
            kind: text(row.get(1)),
            position: position.map(i32::from_be_bytes).unwrap_or(-1),
            ty: text(row.get(3)),
        }
    };
    Ok(Table::of(profile, rows.iter().map(draft).collect())?)
}

fn user_kind(
    arguments: &Arguments,
    profile: &Profile,
    table: &Arc<Table>,
    own: &str,
    connection: &mut Connection,
) -> Result<(String, Statement, Action, Template), WorkloadError> {
    let name = own.to_ascii_lowercase();
    if name == "insert" {
        let insert = Insert::new(profile, Arc::clone(table), &arguments.inserts, arguments.order)?;
        let statement = insert.statement();
        let (id, template, _) = prepared(arguments, connection, &statement, None)?;
        return Ok((statement, id, Action::Insert(insert), template));
    }
    let not_yet = |why| WorkloadError::NotYet { operation: own.to_owned(), profile: profile.name.clone(), why };
    if let Some(spec) = profile.queries.get(&name) {
        let (id, template, variables) = prepared(arguments, connection, &spec.cql, Some(PAGE_ROWS))?;
        let query = Query::new(profile, Arc::clone(table), own, spec, &variables)?;
        return Ok((spec.cql.clone(), id, Action::Query(query), template));
    }
    if profile.range_queries.iter().any(|range| range.eq_ignore_ascii_case(&name)) {
        return Err(not_yet("queries of token ranges are not made"));
    }
    if name == "validate" {
        return Err(not_yet("what profiles insert is not compared"));
    }
    let known: Vec<&str> = ["insert"].into_iter().chain(profile.queries.keys().map(String::as_str)).collect();
    let (operation, profile) = (own.to_owned(), profile.name.clone());
    Err(WorkloadError::NoQuery { operation, profile, known: known.join(", ") })
}
