//! Flattens the reply to a command, as Spin does.

use redis::{ErrorKind, FromRedisValue, RedisError, Value};

use crate::bindings::redis::RedisResult;

/// A flattened reply. The elements of nested arrays become elements of the reply.
/// Maps, attributes, verbatim strings and pushes are errors.
#[derive(Debug)]
pub struct Reply(pub Vec<RedisResult>);

impl Reply {
    /// Returns the memory that the reply occupies, in bytes.
    pub fn size(&self) -> usize {
        let heap_size = |value: &RedisResult| match value {
            RedisResult::Nil | RedisResult::Int64(_) => 0,
            RedisResult::Status(text) => text.len(),
            RedisResult::Binary(bytes) => bytes.len(),
        };
        size_of::<Vec<RedisResult>>()
            + self.0.iter().map(|value| size_of::<RedisResult>() + heap_size(value)).sum::<usize>()
    }

    fn append(&mut self, value: &Value) -> Result<(), RedisError> {
        self.0.push(match value {
            Value::Nil => RedisResult::Nil,
            Value::Int(value) => RedisResult::Int64(*value),
            Value::Boolean(value) => RedisResult::Int64(i64::from(*value)),
            Value::BulkString(bytes) => RedisResult::Binary(bytes.clone()),
            Value::SimpleString(text) => RedisResult::Status(text.clone()),
            Value::Okay => RedisResult::Status("OK".into()),
            Value::Double(value) => RedisResult::Binary(value.to_string().into_bytes()),
            Value::BigNumber(value) => RedisResult::Binary(value.to_string().into_bytes()),
            Value::Array(values) | Value::Set(values) => {
                return values.iter().try_for_each(|value| self.append(value));
            }
            Value::Map(_) => return Err(unsupported("Redis Map type is not supported")),
            Value::Attribute { .. } => return Err(unsupported("Redis Attribute type is not supported")),
            Value::VerbatimString { .. } => {
                return Err(unsupported("Redis string with format attribute is not supported"));
            }
            Value::Push { .. } => return Err(unsupported("Redis Pub/Sub types are not supported")),
            Value::ServerError(error) => {
                return Err((ErrorKind::ResponseError, "Server error", format!("{error:?}")).into());
            }
        });
        Ok(())
    }
}

fn unsupported(reason: &str) -> RedisError {
    (ErrorKind::TypeError, "Could not convert Redis response", reason.to_owned()).into()
}

impl FromRedisValue for Reply {
    fn from_redis_value(value: &Value) -> redis::RedisResult<Self> {
        let mut reply = Self(Vec::new());
        reply.append(value)?;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_replies_are_flattened() {
        let nested = Value::Array(vec![
            Value::Okay,
            Value::Array(vec![Value::Int(1), Value::Array(vec![Value::Nil])]),
            Value::Boolean(true),
            Value::Double(1.5),
        ]);
        let reply = Reply::from_redis_value(&nested).unwrap().0;
        assert!(
            matches!(
                &reply[..],
                [
                    RedisResult::Status(ok),
                    RedisResult::Int64(1),
                    RedisResult::Nil,
                    RedisResult::Int64(1),
                    RedisResult::Binary(double),
                ] if ok == "OK" && double == b"1.5"
            ),
            "{reply:?}"
        );
    }

    #[test]
    fn nested_maps_are_refused() {
        let map = Value::Map(vec![(Value::Int(1), Value::Int(2))]);
        let error = Reply::from_redis_value(&Value::Array(vec![map])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TypeError);
    }
}
