-- Creates the role and the database of the ledger. The app creates its tables at the first start, which only the
-- owner of the database may do.
--
--     sudo -u postgres psql -v password="$(openssl rand -hex 24)" < postgres.sql
--
-- in the folder of this file prints the password once, as a part of the line for /etc/stampede/env. The shell opens the
-- file, because the user postgres cannot read a home directory of mode 0700; psql's warning about that is harmless.
\set ON_ERROR_STOP on
CREATE ROLE stampede LOGIN PASSWORD :'password';
CREATE DATABASE stampede OWNER stampede;
\echo 'SPIN_VARIABLE_LEDGER=postgres://stampede:':password'@127.0.0.1:5432/stampede?sslmode=disable'
\echo 'SPIN_VARIABLE_LEDGER_HOST=postgres://127.0.0.1:5432'
