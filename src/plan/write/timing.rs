//! USING TIMESTAMP and TTL: what they are for one execution.

use crate::cql::ast;
use crate::mutation::Stamp;
use crate::plan::term::{Binding, Bound, Scope, Term, invalid};
use crate::plan::{ColumnSpec, RequestOptions};
use crate::protocol::CqlError;
use crate::schema::Table;
use crate::types::{CqlType, number, temporal};

/// The longest TTL: 20 years.
pub const TTL_S_MAX: i32 = 20 * 365 * 24 * 60 * 60;

/// The last second at which something can expire (Cassandra 5.0's, in 2106).
pub const EXPIRES_S_MAX: i64 = 4_294_967_293;

/// The USING clause of a statement.
#[derive(Clone, Debug, Default)]
pub(super) struct Using {
    pub timestamp: Option<Term>,
    pub ttl: Option<Term>,
}

/// When one execution writes, and how long that lasts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub stamp: Stamp,
    /// TTL and when it ends, in seconds.
    pub expiry: Option<(u32, i64)>,
    pub now_s: i64,
}

impl Moment {
    /// Just before: where what a statement replaces is deleted. `None` before the first timestamp, where nothing is.
    pub fn before(&self) -> Option<Stamp> {
        match self.stamp {
            Stamp::Base(after) => Some(Stamp::Base(after - 1)),
            Stamp::At(timestamp) => (timestamp > i64::MIN + 1).then(|| Stamp::At(timestamp - 1)),
        }
    }
}

impl Using {
    pub fn prepare(using: &ast::Using, table: &Table, scope: &mut Scope<'_>) -> Result<Using, CqlError> {
        let spec = |name: &str, ty| ColumnSpec {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            name: name.to_owned(),
            ty,
        };
        let mut term =
            |term: &Option<ast::Term>, spec| term.as_ref().map(|term| Term::prepare(term, &spec, scope)).transpose();
        Ok(Using {
            timestamp: term(&using.timestamp, spec("[timestamp]", CqlType::BigInt))?,
            ttl: term(&using.ttl, spec("[ttl]", CqlType::Int))?,
        })
    }

    pub fn bind(&self, table: &Table, binding: &Binding<'_>, options: &RequestOptions<'_>) -> Result<Moment, CqlError> {
        let stamp = match &self.timestamp {
            Some(term) => timestamp(term, binding)?.map_or(Stamp::Base(0), Stamp::At),
            None => Stamp::Base(0),
        };
        let (ttl_s, is_default) = match &self.ttl {
            Some(term) => ttl(term, binding)?.map_or((table.options.default_time_to_live_s, true), |ttl| (ttl, false)),
            None => (table.options.default_time_to_live_s, true),
        };
        let now_s = options.now_s();
        Ok(Moment { stamp, expiry: expiry(table, ttl_s, is_default, now_s)?, now_s })
    }
}

/// A timestamp of USING; `None` where it is unset.
pub(super) fn timestamp(term: &Term, binding: &Binding<'_>) -> Result<Option<i64>, CqlError> {
    let value = match term.bind(binding)? {
        Bound::Unset => return Ok(None),
        Bound::Null => return Err(invalid("Invalid null value of timestamp")),
        Bound::Bytes(bytes) => number::int64(&bytes).ok_or_else(|| invalid("Invalid empty value of timestamp"))?,
    };
    if value == i64::MIN {
        let (min, max) = (i64::MIN + 1, i64::MAX);
        return Err(invalid(format!("Out of bound timestamp, must be in [{min}, {max}]")));
    }
    Ok(Some(value))
}

/// A TTL of USING; null is none, `None` where it is unset.
fn ttl(term: &Term, binding: &Binding<'_>) -> Result<Option<i32>, CqlError> {
    let value = match term.bind(binding)? {
        Bound::Unset => return Ok(None),
        Bound::Null => 0,
        Bound::Bytes(bytes) => number::int32(&bytes).ok_or_else(|| invalid("Invalid empty value of TTL"))?,
    };
    if value < 0 {
        return Err(invalid(format!("A TTL must be greater or equal to 0, but was {value}")));
    }
    if value > TTL_S_MAX {
        return Err(invalid(format!("ttl is too large. requested ({value}) maximum ({TTL_S_MAX})")));
    }
    Ok(Some(value))
}

/// When a TTL ends. As under Cassandra's policy REJECT, one that ends too late is refused.
fn expiry(table: &Table, ttl_s: i32, is_default: bool, now_s: i64) -> Result<Option<(u32, i64)>, CqlError> {
    let Some(ttl) = u32::try_from(ttl_s).ok().filter(|ttl| *ttl > 0) else {
        return Ok(None);
    };
    let expires_s = now_s.saturating_add(i64::from(ttl));
    if expires_s > EXPIRES_S_MAX {
        let limit = temporal::format_timestamp(EXPIRES_S_MAX * 1000);
        return Err(invalid(format!(
            "Request on table {}.{} with {}ttl of {ttl} seconds exceeds maximum supported expiration date of {limit}. \
             In order to avoid this use a lower TTL",
            table.keyspace,
            table.name,
            if is_default { "default " } else { "" }
        )));
    }
    Ok(Some((ttl, expires_s)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::plan::markers::Markers;
    use crate::plan::term::Uses;
    use crate::plan::testing::{self, NOW_S};
    use crate::protocol::Value;

    fn bind_at(
        now_in_seconds: Option<i32>,
        ttl: Option<&Value<'_>>,
        timestamp: Option<&Value<'_>>,
    ) -> Result<Moment, String> {
        let schema = testing::schema(&["CREATE TABLE t (k int PRIMARY KEY, v int) WITH default_time_to_live = 100"]);
        let table = schema.table("ks", "t").unwrap();
        let mut markers = Markers::new(&[None, None]);
        let mut scope = Scope::new(&schema, "ks", Some(table), &mut markers);
        let marker = |at| ast::Term::Marker(ast::BindIndex(at));
        let using = ast::Using { timestamp: timestamp.map(|_| marker(0)), ttl: ttl.map(|_| marker(1)) };
        let using = Using::prepare(&using, table, &mut scope).unwrap();
        let values = [timestamp.copied().unwrap_or(Value::Null), ttl.copied().unwrap_or(Value::Null)];
        let (options, uses) = (RequestOptions { now_in_seconds, ..testing::options() }, Uses::default());
        using
            .bind(table, &Binding::new(&values, options.context, &uses), &options)
            .map_err(|error| error.message().to_owned())
    }

    fn ttl_of(value: i32) -> Result<Option<(u32, i64)>, String> {
        let bytes = value.to_be_bytes();
        bind_at(None, Some(&Value::Bytes(&bytes)), None).map(|moment| moment.expiry)
    }

    #[test]
    fn a_ttl_counts_from_now_and_has_limits() {
        assert_eq!(ttl_of(5), Ok(Some((5, NOW_S + 5))));
        assert_eq!(ttl_of(0), Ok(None));
        assert_eq!(ttl_of(TTL_S_MAX), Ok(Some((630_720_000, NOW_S + 630_720_000))));
        assert_eq!(ttl_of(-1).unwrap_err(), "A TTL must be greater or equal to 0, but was -1");
        assert_eq!(ttl_of(630_720_001).unwrap_err(), "ttl is too large. requested (630720001) maximum (630720000)");
    }

    #[test]
    fn the_tables_ttl_holds_where_none_is_given() {
        let expiry = |value: Option<Value<'_>>| bind_at(None, value.as_ref(), None).unwrap().expiry;
        assert_eq!(expiry(None), Some((100, NOW_S + 100)));
        assert_eq!(expiry(Some(Value::Unset)), Some((100, NOW_S + 100)));
        assert_eq!(expiry(Some(Value::Null)), None);
        assert_eq!(bind_at(Some(1000), None, None).unwrap().expiry, Some((100, 1100)));
    }

    #[test]
    fn what_would_expire_after_2106_is_refused() {
        let bytes = i32::to_be_bytes(TTL_S_MAX);
        assert!(bind_at(Some(i32::MAX), Some(&Value::Bytes(&bytes)), None).is_ok());
        let table = testing::table("t", "k int PRIMARY KEY");
        assert_eq!(expiry(&table, 10, false, EXPIRES_S_MAX - 10), Ok(Some((10, EXPIRES_S_MAX))));
        let error = expiry(&table, 10, true, EXPIRES_S_MAX - 9).unwrap_err();
        assert!(error.message().contains("ks.t with default ttl of 10 seconds exceeds"), "{error}");
        assert!(error.message().contains("2106-02-07"), "{error}");
    }

    #[test]
    fn timestamps_are_absolute_or_the_requests() {
        let stamp = |value: Option<i64>| {
            let bytes = value.map(i64::to_be_bytes);
            let value = bytes.as_ref().map(|bytes| Value::Bytes(bytes));
            bind_at(None, None, value.as_ref()).map(|moment| (moment.stamp, moment.before()))
        };
        assert_eq!(stamp(None), Ok((Stamp::Base(0), Some(Stamp::Base(-1)))));
        assert_eq!(stamp(Some(-5)), Ok((Stamp::At(-5), Some(Stamp::At(-6)))));
        assert_eq!(stamp(Some(i64::MIN + 1)), Ok((Stamp::At(i64::MIN + 1), None)));
        let range = "Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807]";
        assert_eq!(stamp(Some(i64::MIN)), Err(range.to_owned()));
        assert_eq!(bind_at(None, None, Some(&Value::Unset)).unwrap().stamp, Stamp::Base(0));
        assert_eq!(bind_at(None, None, Some(&Value::Null)).unwrap_err(), "Invalid null value of timestamp");
    }
}
