//! The way of a request: decoded, parsed, planned, routed, answered.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use crate::mutation::read::ReadPage;
use crate::net::Net;
use crate::net::budget::{Budget, Held};
use crate::net::outcome::{Answer, Outcome};
use crate::net::room::Room;
use crate::net::statements::Statement;
use crate::plan::select::{FinishedRows, Intake, ReadPlan, ResultSet};
use crate::plan::{self, Plan, Prepared, RequestOptions, WritePlan, describe, system_rows};
use crate::protocol::result::MetadataMode;
use crate::protocol::{
    Batch, Consistency, CqlError, Execute, Opcode, Prepare, ProtocolVersion, Query, QueryParameters, Request,
    StatementRef, Value, Values,
};
use crate::router::message::Reply;

/// A request on its own: its frame's body, and what its connection knows.
pub struct Call {
    pub net: Rc<Net>,
    pub version: ProtocolVersion,
    pub stream: i16,
    pub opcode: Opcode,
    pub has_payload: bool,
    pub wants_tracing: bool,
    pub body: Vec<u8>,
    /// The connection's keyspace, as USE leaves it.
    pub keyspace: Rc<RefCell<Option<String>>>,
    /// What this client is shown as the node's address, where it is not what `system.local` holds.
    pub address: Option<IpAddr>,
    /// Gives the request's bytes back when the call ends, however it ends.
    #[expect(dead_code, reason = "held: dropping it gives the request's bytes back")]
    pub admitted: Held,
    /// What the connection may hold of answers.
    pub answers: Rc<Budget>,
    /// The size that an answer may well have.
    pub answer_bytes: usize,
}

impl Call {
    /// The whole way: decode, parse, plan, route, and what is to be encoded.
    pub async fn run(self) -> Answer {
        let mut warnings = Vec::new();
        let outcome = match Request::decode(self.version, self.opcode, &self.body, self.has_payload) {
            Ok(Request::Query(query)) => self.query(query, &mut warnings).await,
            Ok(Request::Execute(execute)) => self.execute(execute, &mut warnings).await,
            Ok(Request::Batch(batch)) => self.batch(batch, &mut warnings).await,
            Ok(Request::Prepare(prepare)) => self.prepare(prepare, &mut warnings).await,
            Ok(_) => Err(CqlError::protocol_error("this message has its turn before others, on the connection")),
            Err(error) => Err(error),
        };
        let tracing_id = self.wants_tracing.then(|| self.tracing_id());
        Answer { stream: self.stream, outcome: outcome.unwrap_or_else(Outcome::Error), warnings, tracing_id }
    }

    async fn query(&self, query: Query<'_>, warnings: &mut Vec<String>) -> Result<Outcome, CqlError> {
        let keyspace = self.keyspace_for(query.parameters.keyspace);
        let statement = self.net.texts.statement(&self.net.router.schema(), query.text, keyspace.as_deref())?;
        let values = self.values_in_order(&statement, query.parameters.values, true)?;
        self.run_statement(statement, &values, &query.parameters, None, warnings).await
    }

    async fn execute(&self, execute: Execute<'_>, warnings: &mut Vec<String>) -> Result<Outcome, CqlError> {
        let statement = self.net.statements.get(execute.id)?;
        let values = self.values_in_order(&statement, execute.parameters.values, false)?;
        self.run_statement(statement, &values, &execute.parameters, execute.result_metadata_id, warnings).await
    }

    /// Binds a statement and does what its plan says.
    async fn run_statement(
        &self,
        statement: Rc<Statement>,
        values: &[Value<'_>],
        parameters: &QueryParameters<'_>,
        presented_id: Option<&[u8]>,
        warnings: &mut Vec<String>,
    ) -> Result<Outcome, CqlError> {
        let router = &self.net.router;
        warnings.extend_from_slice(&statement.prepared.warnings);
        match statement.prepared.bind(values, &router.schema(), &self.options(parameters))? {
            Plan::Write(mut write) => {
                if statement.prepared.is_batch() {
                    self.net.limits.batch.check(&mut write)?;
                }
                warnings.extend_from_slice(&write.warnings);
                self.write(write, parameters.consistency).await
            }
            Plan::Read(mut read) => {
                if let Some(address) = self.address {
                    system_rows::show_address(&mut read, address);
                }
                router.check_consistency(&read.table, parameters.consistency)?;
                warnings.extend_from_slice(&read.warnings);
                let (rows, held) = self.read(&read).await?;
                let mode = MetadataMode::of(&statement.columns, presented_id, parameters.skip_metadata);
                Ok(Outcome::Rows { statement, rows, mode, held })
            }
            Plan::Describe(describe) => {
                let keyspace = self.keyspace.borrow().clone();
                let local = self.address.map(|address| self.net.local.at(address));
                let local = local.as_ref().unwrap_or(&self.net.local);
                describe::describe(&describe, &router.schema(), keyspace.as_deref(), local).map(Outcome::Table)
            }
            Plan::Ddl => self.ddl(&statement, warnings).await,
            Plan::Truncate(table) => router.truncate(table.id).await.map(|()| Outcome::Void),
            Plan::Use(keyspace) => {
                *self.keyspace.borrow_mut() = Some(keyspace.clone());
                Ok(Outcome::SetKeyspace(keyspace))
            }
            Plan::Void => Ok(Outcome::Void),
        }
    }

    async fn write(&self, write: WritePlan, level: Consistency) -> Result<Outcome, CqlError> {
        let mut checked: Option<&str> = None;
        for mutation in &write.mutations {
            if checked != Some(&mutation.table.keyspace) {
                self.net.router.check_consistency(&mutation.table, level)?;
                checked = Some(&mutation.table.keyspace);
            }
        }
        self.net.router.write(write).await.map(|()| Outcome::Void)
    }

    /// All pages that one page of the answer needs.
    async fn read(&self, read: &ReadPlan) -> Result<(FinishedRows, Held), CqlError> {
        let router = &self.net.router;
        let deadline_ns = router.read_deadline(&read.command);
        let mut result = read.result();
        let room = Room::new(self.answers.holder(), self.answer_bytes);
        loop {
            let page = router.read(&read.table, result.command(), deadline_ns, &room).await?;
            if let Some(rest) = take_in(&mut result, &page)? {
                self.take_rest(&mut result, rest, &room).await?;
            }
            room.gathered(result.len_bytes())?;
            if !result.turn_page(&page)? {
                break;
            }
            drop(page);
            // However fast pages come, others have their turn between two.
            self.net.io.yield_now().await;
            router.check_deadline(deadline_ns)?;
        }
        Ok((result.finish()?, room.into_held()))
    }

    /// Takes in what is left of a page, with turns of others in between.
    async fn take_rest(&self, result: &mut ResultSet, mut rest: Box<Intake<'_>>, room: &Room) -> Result<(), CqlError> {
        loop {
            room.gathered(result.len_bytes())?;
            self.net.io.yield_now().await;
            if !result.take(&mut rest)? {
                return Ok(());
            }
        }
    }

    async fn ddl(&self, statement: &Statement, warnings: &mut Vec<String>) -> Result<Outcome, CqlError> {
        let text = statement.ddl_text.as_deref().unwrap_or_default();
        match self.net.router.ddl(text, statement.keyspace.as_deref()).await? {
            Reply::Ddl { change, warnings: said } => {
                warnings.extend(said);
                Ok(change.map_or(Outcome::Void, Outcome::SchemaChange))
            }
            _ => Err(CqlError::server_error("a schema change was answered with something else")),
        }
    }

    async fn prepare(&self, prepare: Prepare<'_>, warnings: &mut Vec<String>) -> Result<Outcome, CqlError> {
        let keyspace = self.keyspace_for(prepare.keyspace);
        let router = &self.net.router;
        let (id, statement) = self.net.statements.prepare(&router.schema(), prepare.text, keyspace.as_deref())?;
        // Every shard knows it before the answer, so that EXECUTE finds it on any connection.
        router.prepare_elsewhere(prepare.text, keyspace.as_deref()).await?;
        warnings.extend_from_slice(&statement.prepared.warnings);
        Ok(Outcome::Prepared(id, statement))
    }

    async fn batch(&self, batch: Batch<'_>, warnings: &mut Vec<String>) -> Result<Outcome, CqlError> {
        let schema = self.net.router.schema();
        let keyspace = self.keyspace_for(batch.parameters.keyspace);
        let mut statements = Vec::with_capacity(batch.len());
        for part in batch.statements() {
            let statement = match part.statement {
                StatementRef::Text(text) => self.net.texts.statement(&schema, text, keyspace.as_deref())?,
                StatementRef::Prepared(id) => self.net.statements.get(id)?,
            };
            let values = statement.prepared.order_named(part.values);
            statements.push((statement, values));
        }
        let parts: Vec<(&Prepared, &[Value<'_>])> =
            statements.iter().map(|(statement, values)| (&statement.prepared, values.as_slice())).collect();
        match plan::bind_batch(batch.kind, &parts, &self.options(&batch.parameters), &schema)? {
            Plan::Write(mut write) => {
                self.net.limits.batch.check(&mut write)?;
                warnings.extend_from_slice(&write.warnings);
                self.write(write, batch.parameters.consistency).await
            }
            _ => Ok(Outcome::Void),
        }
    }

    /// The values in the order of the statement's markers.
    fn values_in_order<'v>(
        &self,
        statement: &Statement,
        values: Values<'v>,
        unprepared: bool,
    ) -> Result<Vec<Value<'v>>, CqlError> {
        let ordered = statement.prepared.order_named(values);
        if !unprepared {
            statement.prepared.check_count(ordered.len())?;
        }
        Ok(ordered)
    }

    fn keyspace_for(&self, given: Option<&str>) -> Option<String> {
        given.map_or_else(|| self.keyspace.borrow().clone(), |given| Some(given.to_owned()))
    }

    fn options<'p>(&self, parameters: &QueryParameters<'p>) -> RequestOptions<'p> {
        RequestOptions {
            consistency: parameters.consistency,
            serial_consistency: parameters.serial_consistency,
            page_size: parameters.page_size,
            paging_state: parameters.paging_state,
            timestamp: parameters.timestamp,
            now_in_seconds: parameters.now_in_seconds,
            context: self.net.router.context(),
        }
    }

    /// Traces are not kept: the id names a session that `system_traces.sessions` does not hold.
    fn tracing_id(&self) -> [u8; 16] {
        let context = self.net.router.context();
        let ticks = crate::types::uuid::ticks_of_unix_ms(context.now_us.div_euclid(1000));
        crate::types::uuid::version1(ticks, context.random[0].to_be_bytes())
    }
}

/// Takes a page in, as far as one turn goes; what is left of it. Most pages are done at once.
fn take_in<'p>(result: &mut ResultSet, page: &'p ReadPage) -> Result<Option<Box<Intake<'p>>>, CqlError> {
    let mut intake = Intake::of(page);
    Ok(result.take(&mut intake)?.then(|| Box::new(intake)))
}
