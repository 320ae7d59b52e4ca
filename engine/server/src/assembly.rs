//! From the checked configuration to the parts: the engine's and the gateway's own configurations, what the log must
//! have, and what the gateway knows at the start.

use std::path::Path;
use std::time::Duration;

use exchange::Exchange;
use gateway::credentials::{self, Verifier};
use gateway::{DurabilityLevel, GatewayConfig, HubSeed, ListenerLimits, SessionLimits, ThrottleLimits};
use journaler::{ARCHIVE_TIMEOUT_DEFAULT, ArchiveOptions, JournalOptions};
use pipeline::{EngineConfig, Fatal};
use protocol::{ConnectionId, Credential, Role, UserDefinition, UserName};
use rand::RngExt;
use snapshots::SnapshotSchedule;

use crate::config::{Config, Durability};
use crate::error::CommandError;
use crate::files;
use crate::passwords::{self, DEMONSTRATION_FILE, PasswordError, Passwords};
use crate::provision::{Existing, Known, Wanted, WantedUser};
use crate::{console, instruments, space};

/// The demonstration users and what they may do.
const DEMONSTRATION: [(&str, Role); 3] =
    [("demo", Role::Trader), ("demo2", Role::Trader), ("admin", Role::Operator)];

/// The engine's configuration.
#[must_use]
pub fn engine(config: &Config, cluster_id: u128) -> EngineConfig {
    let base = EngineConfig::new(cluster_id);
    let (data, journal) = (config.data.clone(), config.journal.clone());
    EngineConfig {
        input_slots: config.engine.input_slots,
        output_slots: config.engine.output_slots,
        threads: config.engine.threads.clone(),
        wait: config.engine.wait,
        journal: JournalOptions {
            segment_bytes: config.journal.segment_bytes,
            durability: journal_durability(config.journal.durability),
            reserve_bytes: config.journal.reserve_bytes,
            ..base.journal
        },
        snapshots: SnapshotSchedule {
            every_frames: config.snapshots.every_frames,
            every: config.snapshots.every,
            ..base.snapshots
        },
        snapshots_kept: config.snapshots.keep,
        archive: config.journal.archive.as_ref().map(|archive| ArchiveOptions {
            command: archive.command.clone(),
            read_back: archive.read_back.clone(),
            timeout: ARCHIVE_TIMEOUT_DEFAULT,
        }),
        fatal: Fatal::new(move |line| end_with(&space::explain(line, &data, &journal))),
        ..base
    }
}

/// Ends the process for an error that nothing may survive: one line, exit status 1, nothing flushed or retried.
pub fn end_with(line: &str) {
    tracing::error!(error = line, "fatal: the server stops");
    console::complain(&format_args!("fatal: {line}"));
    std::process::exit(1);
}

/// The journal's word for a durability.
#[must_use]
pub fn journal_durability(durability: Durability) -> journaler::Durability {
    match durability {
        Durability::Memory => journaler::Durability::Memory,
        Durability::Disk => journaler::Durability::Disk,
    }
}

/// The gateway's configuration.
#[must_use]
pub fn gateway(config: &Config) -> GatewayConfig {
    let rate = config.gateway.messages_per_second;
    GatewayConfig {
        address: config.gateway.listen,
        allow_remote: config.gateway.allow_remote,
        durability: match (config.journal.durability, &config.cluster) {
            (Durability::Memory, _) => DurabilityLevel::Memory,
            (Durability::Disk, None) => DurabilityLevel::Disk,
            (Durability::Disk, Some(_)) => DurabilityLevel::Quorum,
        },
        listener: ListenerLimits {
            connections_max: config.gateway.connections_max,
            connections_per_address_max: config.gateway.connections_per_address_max,
            ..ListenerLimits::default()
        },
        session: SessionLimits {
            login_deadline: config.gateway.login_deadline,
            stall: config.gateway.slow_reader,
            throttle: Some(ThrottleLimits { rate, burst: rate }),
            rulebook_max: exchange::RULEBOOK_VERSION,
            ..SessionLimits::default()
        },
    }
}

/// How long a stop may take before it leaves what has not drained for the next start.
pub const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// What the log has, from the recovered state.
#[must_use]
pub fn known(exchange: &Exchange) -> Known {
    Known {
        instruments: exchange
            .instruments()
            .map(|(definition, _)| (definition.instrument, *definition))
            .collect(),
        users: exchange.users().copied().collect(),
        capacities: exchange.capacities(),
        rulebook: exchange.rulebook_version(),
    }
}

/// What the gateway knows at the start. Its connections are numbered from behind `last_connection`.
#[must_use]
pub fn seed(exchange: &Exchange, last_connection: ConnectionId) -> HubSeed {
    HubSeed {
        trading_day: exchange.trading_day(),
        last_connection,
        users: exchange.users().copied().collect(),
        participants: exchange.controls().map(|view| (view.session, view.participant, view.joined)).collect(),
        instruments: exchange.instruments().map(|(definition, _)| *definition).collect(),
    }
}

/// What the configuration wants in the log, and the demonstration users' passwords where there are any.
///
/// # Errors
/// A file that the configuration names can't be used, or nobody could ever log in.
pub fn wanted(
    config: &Config,
    data: &Path,
    known: &Known,
) -> Result<(Wanted, Option<Passwords>), CommandError> {
    let mut wanted = wanted_but_users(config)?;
    if config.users.demonstration {
        let (users, passwords) = demonstration(data, known)?;
        wanted.users = users;
        return Ok((wanted, Some(passwords)));
    }
    add_own_users(&mut wanted, config, data, known)?;
    Ok((wanted, None))
}

/// As [`wanted`], for a member that leads a cluster. Each member has a data directory of its own, so the demonstration users
/// that the log has stay as they are: what this member's directory says of their passwords may be older.
///
/// # Errors
/// As [`wanted`].
pub fn wanted_of_cluster(config: &Config, data: &Path, known: &Known) -> Result<Wanted, CommandError> {
    let mut wanted = wanted_but_users(config)?;
    if !config.users.demonstration {
        add_own_users(&mut wanted, config, data, known)?;
        return Ok(wanted);
    }
    let names = demonstration_names();
    if names.iter().all(|name| known.users.iter().any(|user| user.name == *name)) {
        return Ok(wanted);
    }
    let (users, _) = demonstration(data, known)?;
    wanted.users = users.into_iter().map(|user| WantedUser { existing: Existing::Stays, ..user }).collect();
    Ok(wanted)
}

fn wanted_but_users(config: &Config) -> Result<Wanted, CommandError> {
    let instruments = match &config.instruments {
        Some(file) => instruments::load(file),
        None => instruments::demonstration(),
    }
    .map_err(|error| CommandError::usage(error.to_string()))?;
    Ok(Wanted {
        capacities: config.capacities,
        instruments,
        users: Vec::new(),
        disabled: Vec::new(),
        rulebook: exchange::RULEBOOK_VERSION,
    })
}

/// The operator of the configuration instead of the demonstration users.
fn add_own_users(
    wanted: &mut Wanted,
    config: &Config,
    data: &Path,
    known: &Known,
) -> Result<(), CommandError> {
    wanted.disabled = retire_demonstration(data, known)?;
    if let Some((name, file)) = &config.users.operator {
        wanted.users.extend(operator(*name, file, known)?);
    }
    let nobody = wanted.users.is_empty()
        && known.users.iter().all(|user| !user.enabled || wanted.disabled.contains(&user.name));
    if nobody {
        return Err(CommandError::usage(
            "users: nobody could log in; set users.operator and users.operator_password_file, or \
             users.demonstration = true",
        ));
    }
    Ok(())
}

/// The operator that the configuration names, where the log does not have it as the file says. So whoever can write the
/// password file and restart the server gets back in when the last operator can't.
fn operator(name: UserName, file: &Path, known: &Known) -> Result<Option<WantedUser>, CommandError> {
    let there = known.users.iter().find(|user| user.name == name);
    // The file may go once the operator is made.
    if there.is_some_and(|user| user.enabled && user.role == Role::Operator) && !file.exists() {
        return Ok(None);
    }
    let password = passwords::read_file(file).map_err(|error| CommandError::usage(error.to_string()))?;
    let existing = match there {
        None => Existing::Stays,
        Some(user) => match unlike_operator(user, &password) {
            None => return Ok(None),
            Some(why) => {
                let file = file.display();
                tracing::warn!(user = %name, why, %file, "the operator is made able to log in with the file's password");
                Existing::Restored
            }
        },
    };
    Ok(Some(WantedUser { name, role: Role::Operator, credential: hash(&password)?, existing }))
}

/// Why a user can't administer with this password; `None` where it can.
fn unlike_operator(user: &UserDefinition, password: &str) -> Option<&'static str> {
    if !user.enabled {
        Some("it was disabled")
    } else if user.role != Role::Operator {
        Some("it was no operator")
    } else if !Verifier::default().verify(&user.credential, password.as_bytes()) {
        Some("it had another password")
    } else {
        None
    }
}

/// The demonstration users with their passwords: those kept in the data directory, or new ones, which are kept before
/// the users are made.
fn demonstration(data: &Path, known: &Known) -> Result<(Vec<WantedUser>, Passwords), CommandError> {
    let failed = |error: PasswordError| CommandError::failed(error.to_string());
    let names = demonstration_names();
    let kept = Passwords::load(data)
        .map_err(failed)?
        .filter(|kept| names.iter().all(|name| kept.of(name).is_some()));
    // Passwords that are lost are replaced in the log too: only their hashes are there.
    let lost = kept.is_none();
    let passwords = kept.unwrap_or_else(|| Passwords::random(&names));
    if lost {
        passwords.store(data).map_err(failed)?;
    }
    let users = DEMONSTRATION
        .iter()
        .zip(&names)
        .map(|((_, role), name)| {
            let password = passwords.of(name).unwrap_or_default();
            let there = known.users.iter().find(|user| user.name == *name);
            // Without an operator, nobody could give the others back what they lost.
            let why = there.filter(|_| *role == Role::Operator).and_then(|user| unlike_operator(user, password));
            let existing = match why {
                Some(why) => {
                    tracing::warn!(user = %name, why, "the operator is made able to log in with the kept password");
                    Existing::Restored
                }
                None if lost => Existing::NewPassword,
                None => Existing::Stays,
            };
            Ok(WantedUser { name: *name, role: *role, credential: hash(password)?, existing })
        })
        .collect::<Result<_, CommandError>>()?;
    Ok((users, passwords))
}

/// The users of an earlier start with demonstration users that still have their demonstration password: they must not
/// stay open once the server is meant for more. Their file goes with them.
fn retire_demonstration(data: &Path, known: &Known) -> Result<Vec<UserName>, CommandError> {
    let failed = |error: PasswordError| CommandError::failed(error.to_string());
    let Some(passwords) = Passwords::load(data).map_err(failed)? else { return Ok(Vec::new()) };
    let mut verifier = Verifier::default();
    let retired = passwords
        .iter()
        .filter(|(name, password)| {
            let user = known.users.iter().find(|user| user.name == **name);
            user.is_some_and(|user| verifier.verify(&user.credential, password.as_bytes()))
        })
        .map(|(name, _)| *name)
        .collect();
    Ok(retired)
}

/// Once the demonstration users are disabled in the log, their passwords go.
///
/// # Errors
/// The file can't be removed.
pub fn finish_retirement(data: &Path, wanted: &Wanted) -> Result<(), CommandError> {
    if wanted.disabled.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = wanted.disabled.iter().map(ToString::to_string).collect();
    tracing::warn!(users = names.join(" "), "demonstration users of an earlier start are disabled");
    let file = data.join(DEMONSTRATION_FILE);
    files::remove_if_there(&file)
        .map_err(|error| CommandError::failed(format!("{}: {error}", file.display())))
}

/// The login names of the demonstration users.
#[must_use]
pub fn demonstration_names() -> Vec<UserName> {
    DEMONSTRATION.iter().map(|(name, _)| demonstration_name(name)).collect()
}

fn demonstration_name(text: &str) -> UserName {
    match UserName::new(text) {
        Some(name) => name,
        None => unreachable!("the demonstration names are constants that fit"),
    }
}

fn hash(password: &str) -> Result<Credential, CommandError> {
    credentials::hash(password, rand::rng().random()).map_err(|error| CommandError::usage(error.to_string()))
}
