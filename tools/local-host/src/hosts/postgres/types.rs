//! SQL types that the driver does not support, or not as the guest needs them.

use std::{error::Error, fmt};

use bytes::{Buf as _, BufMut as _, BytesMut};
use postgres_range::{BoundSided, Normalizable, RangeBound};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::bindings::postgres;

type AnyError = Box<dyn Error + Sync + Send>;

/// NULL, for a column of any type.
#[derive(Debug)]
pub struct Null;

impl ToSql for Null {
    fn to_sql(&self, _: &Type, _: &mut BytesMut) -> Result<IsNull, AnyError> {
        Ok(IsNull::Yes)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, _: &Type, _: &mut BytesMut) -> Result<IsNull, AnyError> {
        Ok(IsNull::Yes)
    }
}

/// The raw bytes of a value whose type the interface does not have.
pub struct Raw(pub Vec<u8>);

impl FromSql<'_> for Raw {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, AnyError> {
        Ok(Self(raw.to_owned()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// INTERVAL.
#[derive(Debug)]
pub struct Interval(pub postgres::Interval);

impl ToSql for Interval {
    to_sql_checked!();

    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, AnyError> {
        out.put_i64(self.0.micros);
        out.put_i32(self.0.days);
        out.put_i32(self.0.months);
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::INTERVAL
    }
}

impl FromSql<'_> for Interval {
    fn from_sql(_: &Type, mut raw: &[u8]) -> Result<Self, AnyError> {
        if raw.len() != 16 {
            return Err("unexpected binary format for Postgres INTERVAL".into());
        }
        let micros = raw.get_i64();
        let days = raw.get_i32();
        let months = raw.get_i32();
        Ok(Self(postgres::Interval { micros, days, months }))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::INTERVAL
    }
}

/// NUMERIC. Unlike `rust_decimal`'s type it can be the bound of a range.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Decimal(pub rust_decimal::Decimal);

impl ToSql for Decimal {
    to_sql_checked!();

    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, AnyError> {
        self.0.to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <rust_decimal::Decimal as ToSql>::accepts(kind)
    }
}

impl FromSql<'_> for Decimal {
    fn from_sql(kind: &Type, raw: &[u8]) -> Result<Self, AnyError> {
        rust_decimal::Decimal::from_sql(kind, raw).map(Self)
    }

    fn accepts(kind: &Type) -> bool {
        <rust_decimal::Decimal as FromSql>::accepts(kind)
    }
}

impl Normalizable for Decimal {
    fn normalize<S: BoundSided>(bound: RangeBound<S, Self>) -> RangeBound<S, Self> {
        bound
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
