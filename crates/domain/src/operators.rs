//! Named tokens of operators, with roles (G2, G7).
//!
//! The variable `operator_tokens` has entries `name:roles:token`, separated by spaces; roles are joined by `+`. A name
//! with two entries has two tokens: that is how one is replaced. `admin_token` is the operator `admin` with every role.

use crate::secret;

crate::words! {
    /// What an operator may do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Role {
        /// Read orders and delivery addresses, and nothing else. Every operator may: see [`Operator::may`].
        Fulfil = "fulfil",
        /// See everything. Every operator may who does not only fulfil orders.
        Read = "read",
        /// Change activities, stock, bans, the queue and load shedding.
        Operate = "operate",
        /// Decide about money: parked callbacks and, with [`Role::Operate`], prices on sale.
        Money = "money",
    }
}

/// An operator, as found by a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// The name in the log and in operator changes.
    pub name: String,
    roles: Vec<Role>,
}

impl Operator {
    /// Whether the operator has a role.
    #[must_use]
    pub fn may(&self, role: Role) -> bool {
        match role {
            Role::Fulfil => true,
            Role::Read => self.roles.iter().any(|own| *own != Role::Fulfil),
            Role::Operate | Role::Money => self.roles.contains(&role),
        }
    }
}

/// All operators with their tokens.
pub struct Operators(Vec<(String, Operator)>);

impl Operators {
    /// Reads the variables `admin_token`, whose secrets are strong, and `operator_tokens`.
    pub fn parse(admin_token: &str, operator_tokens: &str) -> Result<Self, &'static str> {
        let admin = Operator { name: "admin".to_owned(), roles: vec![Role::Operate, Role::Money] };
        let mut all: Vec<_> = secret::active(admin_token).map(|token| (token.to_owned(), admin.clone())).collect();
        for entry in operator_tokens.split_ascii_whitespace() {
            const MALFORMED: &str =
                "holds an entry that is not name:roles:token, with roles read, operate, money, fulfil";
            let [name, roles, token]: [&str; 3] =
                entry.splitn(3, ':').collect::<Vec<_>>().try_into().map_err(|_| MALFORMED)?;
            let is_name = (1..=40).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte));
            let roles: Option<Vec<Role>> = roles.split('+').map(Role::parse).collect();
            let (true, Some(roles)) = (is_name && name != "admin", roles) else { return Err(MALFORMED) };
            if secret::weakness(token).is_some() {
                return Err("holds a token that is shorter than 32 bytes or can be guessed");
            }
            all.push((token.to_owned(), Operator { name: name.to_owned(), roles }));
        }
        Ok(Self(all))
    }

    /// The operator whose token a client sent. Compares with every token, so that the time does not tell which matched.
    #[must_use]
    pub fn find(&self, token: &str) -> Option<&Operator> {
        let mut found = None;
        for (expected, operator) in &self.0 {
            if secret::matches(expected, token) {
                found = Some(operator);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADMIN: &str = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";
    const ADA: &str = "Zt5-new-new-9Qw7e2r4u6i8o0p1a3s5d7f";
    const BEN: &str = "Ub6:colon-0Rx8f3s5v7j9p1q2b4t6e8g0h";

    const CYD: &str = "Vc7-new-new-1Sy9g4t6w8k0r2c3u5f7h1i";
    const DAN: &str = "Wd8-new-new-2Tz0h5u7x9l1s3d4v6g8i2j";

    #[test]
    fn an_operator_has_the_roles_of_the_token() {
        let entries = format!("ada:read:{ADA}  ben:operate+money:{BEN} cyd:fulfil:{CYD} dan:fulfil+money:{DAN}");
        let operators = Operators::parse(ADMIN, &entries).expect("entries");
        let may = |token: &str| {
            let operator = operators.find(token).expect("an operator");
            (operator.name.as_str(), Role::ALL.map(|role| operator.may(role)))
        };
        assert_eq!(may(ADMIN), ("admin", [true, true, true, true]));
        assert_eq!(may(ADA), ("ada", [true, true, false, false]));
        assert_eq!(may(BEN), ("ben", [true, true, true, true]));
        assert_eq!(may(CYD), ("cyd", [true, false, false, false]));
        assert_eq!(may(DAN), ("dan", [true, true, false, true]));
        for unknown in ["", "ada", &ADA[1..], &format!("ada:read:{ADA}")] {
            assert_eq!(operators.find(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_token_is_replaced_while_the_old_one_works() {
        let both = Operators::parse("", &format!("ada:read:{ADA} ada:operate:{BEN}")).expect("entries");
        assert_eq!(both.find(ADA).map(|operator| operator.may(Role::Operate)), Some(false));
        assert_eq!(both.find(BEN).map(|operator| operator.may(Role::Operate)), Some(true));
    }

    #[test]
    fn malformed_entries_and_weak_tokens_are_refused() {
        for wrong in [
            ADA.to_owned(),
            format!("ada:{ADA}"),
            format!("ada:root:{ADA}"),
            format!("ada::{ADA}"),
            format!(":read:{ADA}"),
            format!("admin:read:{ADA}"),
            format!("a\u{e4}:read:{ADA}"),
            "ada:read:short".to_owned(),
        ] {
            assert!(Operators::parse(ADMIN, &wrong).is_err(), "{wrong}");
        }
        assert!(Operators::parse("", "").is_ok_and(|operators| operators.find("").is_none()), "an empty token");
    }
}
