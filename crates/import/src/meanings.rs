//! What settings, modules and functions of both programs mean here.

use crate::notes::Kind::{self, Differs, Missing, Needless, ToDo};

/// Names, those that end with `*` the beginnings of names; how much it matters; what to say.
type Meaning = (&'static str, Kind, &'static str);

const RELAYS: &str = "Sipyard relays, record-routes and repeats by itself";
const TRIES: &str = "Sipyard tries the next server by itself: answer_timeout, 503 and ICMP errors";
const MEDIA: &str = "Sipyard relays no media: keep the relay behind it, or on the servers";
const NAT: &str =
    "Sipyard finds phones behind NATs by the route set, and changes neither Contact nor SDP";
const LOGS: &str = "Sipyard has its own log, metrics and `ctl explain`";
const PROCESSES: &str = "Sipyard has one thread for each core and limits of its own: see [limits]";
const CHECKS: &str = "Sipyard checks messages, limits and loops by itself";
const RECORDS: &str = "Sipyard writes no call records";
const GUARDS: &str = "Sipyard limits and bans strangers by itself: see [abuse]";
const DATABASE: &str = "Sipyard asks no SQL database: it has a file or Redis for users and phones";
const SCRIPT: &str = "Sipyard has no script: put this logic into the servers behind it";
const STREAMS: &str = "connections and certificates are in [[listen]] and [limits]";
const PRESENCE: &str = "Sipyard has no presence server: let a pool take SUBSCRIBE and PUBLISH";
const CONTROL: &str = "`sipyard ctl` and the admin API control a node";
const DIALOGS: &str = "Sipyard counts calls by itself";
const TOPOLOGY: &str = "Sipyard hides no topology";
const NUMBERS: &str = "Sipyard changes no numbers: let the servers do it";
const AUTH: &str = "`auth = true` on a route asks callers for a password of [registrar]";
const USERS: &str = "`sipyard user import` takes the table subscriber";
const PHONES: &str = "`[registrar]` keeps phones by itself";
const TRUSTED: &str = "write networks that are believed into [trust] peers";
const HEADERS: &str = "`remove` and `add` of a route change headers that are fixed texts";

const BY_ITSELF: &str = "a route sends here by itself: write a pool and a route for it";
const UNKNOWN: (Kind, &str) = (ToDo, "the import does not know this");

/// Parameters of modules, by `module.name`.
const PARAMS: &[Meaning] = &[
    (
        "tm.fr_inv_time*",
        Differs,
        "an INVITE may ring for timers.timer_c, at least 181 s",
    ),
    ("tm.*", Needless, RELAYS),
    ("sl.*", Needless, RELAYS),
    ("rr.*", Needless, RELAYS),
    ("maxfwd.*", Needless, CHECKS),
    ("sanity.*", Needless, CHECKS),
    ("signaling.*", Needless, RELAYS),
    ("path.*", Needless, "Sipyard adds and takes Path by itself"),
    (
        "registrar.path_mode",
        Needless,
        "Sipyard adds and takes Path by itself",
    ),
    (
        "registrar.use_path",
        Needless,
        "Sipyard adds and takes Path by itself",
    ),
    ("registrar.received*", Needless, NAT),
    ("registrar.gruu*", Missing, "Sipyard makes no GRUU"),
    ("registrar.*", Needless, PHONES),
    ("usrloc.*", Needless, PHONES),
    ("auth.*", Needless, AUTH),
    ("auth_db.*", Differs, USERS),
    (
        "auth_*",
        Missing,
        "Sipyard knows passwords of its own store alone",
    ),
    (
        "domain.*",
        Differs,
        "write the domains into registrar.domains",
    ),
    ("nathelper.*", Needless, NAT),
    ("nat_traversal.*", Needless, NAT),
    (
        "mid_registrar.*",
        Missing,
        "Sipyard takes no registrations for other registrars: it passes them on",
    ),
    ("rtpengine.*", Missing, MEDIA),
    ("rtpproxy.*", Missing, MEDIA),
    ("rtp_relay.*", Missing, MEDIA),
    ("mediaproxy.*", Missing, MEDIA),
    ("acc.*", Missing, RECORDS),
    ("acc_*", Missing, RECORDS),
    ("siptrace.*", Missing, "Sipyard sends no HEP"),
    ("sipcapture.*", Missing, "Sipyard sends no HEP"),
    ("tracer.*", Missing, "Sipyard sends no HEP"),
    ("proto_hep.*", Missing, "Sipyard sends no HEP"),
    ("pike.*", Needless, GUARDS),
    ("ratelimit.*", Differs, GUARDS),
    ("pipelimit.*", Differs, GUARDS),
    ("htable.*", Missing, SCRIPT),
    ("permissions.*", Differs, TRUSTED),
    ("dialog.*", Needless, DIALOGS),
    (
        "dispatcher.ds_ping_from",
        Needless,
        "probes name the listener",
    ),
    ("dispatcher.ds_ping_method", Differs, "probes are OPTIONS"),
    (
        "dispatcher.ds_probing_sock",
        Needless,
        "probes leave by the listener that reaches the server",
    ),
    (
        "dispatcher.ds_ping_reply_codes",
        Differs,
        "a server that answers a probe at all, but not 503, is alive",
    ),
    (
        "dispatcher.options_reply_codes",
        Differs,
        "a server that answers a probe at all, but not 503, is alive",
    ),
    (
        "dispatcher.hash_pvar",
        Differs,
        "hashes are of the Call-ID (hash) or of the user (user-hash)",
    ),
    ("dispatcher.*", Needless, "the pool has what this is for"),
    ("load_balancer.*", Needless, "the pool has what this is for"),
    (
        "drouting.*",
        Needless,
        "the pools and routes have what this is for",
    ),
    (
        "lcr.*",
        Missing,
        "Sipyard has no least-cost routing: write routes with users",
    ),
    (
        "carrierroute.*",
        Missing,
        "Sipyard has no least-cost routing: write routes with users",
    ),
    ("dialplan.*", Missing, NUMBERS),
    (
        "uac*",
        Missing,
        "Sipyard registers nowhere and rewrites no From",
    ),
    ("tls*", Differs, STREAMS),
    ("proto_udp.*", Needless, PROCESSES),
    ("proto_*", Differs, STREAMS),
    ("websocket.*", Differs, STREAMS),
    ("xhttp*", Needless, CONTROL),
    ("topo*", Missing, TOPOLOGY),
    ("presence*", Missing, PRESENCE),
    ("pua*", Missing, PRESENCE),
    ("jsonrpcs.*", Needless, CONTROL),
    ("db_*", Needless, DATABASE),
    ("sql*", Missing, DATABASE),
];

/// More modules, whose parameters all mean the same.
const MODULES: &[Meaning] = &[
    (
        "ctl mi_fifo mi_datagram mi_http mi_json mi_html httpd mi_rpc",
        Needless,
        CONTROL,
    ),
    (
        "xlog debugger statistics snmpstats prometheus mtree",
        Needless,
        LOGS,
    ),
    (
        "avpops cfgutils textops pv cachedb_redis cachedb_local ndb_redis evapi",
        Missing,
        SCRIPT,
    ),
    (
        "alias_db group uri uri_db speeddial userblacklist drouting",
        Missing,
        SCRIPT,
    ),
    (
        "clusterer dmq dmq_usrloc",
        Differs,
        "edges with one secret back each other up; registrars share a Redis",
    ),
];

/// Settings outside of modules.
const SETTINGS: &[Meaning] = &[
    (
        "debug log_* xlog_* memdbg memlog stderror_enabled syslog_enabled syslog_facility latency_* \
         mem_* corelog dump_core disable_core_dump debug_mode syslog_level_filter stderror_level_filter",
        Needless,
        LOGS,
    ),
    (
        "children udp_workers tcp_workers socket_workers timer_workers shm* pkg* fork \
         auto_scaling_profile open_files_limit maxbuffer udp_receiver_mode user group uid gid workdir \
         chroot tcp_children mlock_pages real_time async_workers max_while_loops loadpath mpath \
         modparamx version_table kemi phone2tel wdir pid_file",
        Needless,
        PROCESSES,
    ),
    (
        "tcp_* tls_* enable_sctp enable_tls disable_tls enable_tcp",
        Needless,
        STREAMS,
    ),
    (
        "disable_tcp disable_tls",
        Needless,
        "a transport is off unless a [[listen]] has it",
    ),
    (
        "dns dns_* rev_dns use_dns_* disable_dns* auto_aliases mhomed sip_warning server_* \
         user_agent_header sip_parser_* reply_to_via disable_503_translation check_via pmtu_discovery \
         ip_free_bind tos mcast_* onsend_route_reply http_reply_parse udp4_raw* udp_mtu* force_rport",
        Needless,
        CHECKS,
    ),
    (
        "advertised_* alias listen port socket",
        Needless,
        "see [[listen]]",
    ),
    ("db_*", Needless, DATABASE),
];

/// Functions that routes call. Those of one group are noted together.
const CALLS: &[(&str, &str, Kind, &str)] = &[
    (
        "relaying",
        "t_relay t_relay_to_* t_is_set t_is_branch_route is_reply isdsturiset set_reply_no_connect \
         set_forward_no_connect serialize_branches next_branches append_branch t_newtran forward \
         loose_route record_route* has_totag is_method t_check_trans t_precheck_trans remove_hf_re_pv \
         sl_reply_error t_release t_lookup_request t_reply sl_send_reply send_reply sl_reply \
         t_send_reply t_is_local t_local_replied add_rr_param check_route_param is_direction is_myself \
         is_domain_local is_request is_first_hop isflagset setflag resetflag setbflag isbflagset \
         resetbflag has_body* is_present_hf is_in_profile strip_body avp_check defined add_path* \
         add_contact_alias handle_ruri_alias set_contact_alias",
        Needless,
        RELAYS,
    ),
    (
        "failing over",
        "t_on_* t_check_status t_branch_timeout t_branch_replied t_any_* t_was_cancelled t_is_canceled \
         ds_next_* ds_mark_dst lb_next lb_disable* use_next_gw next_gw t_set_fr t_local_timeout \
         t_grep_status ds_list_exists ds_load_* t_reset_fr",
        Needless,
        TRIES,
    ),
    (
        "checking",
        "mf_process_maxfwd_header sanity_check is_maxfwd_lt msg_apply_changes keepalive msg_is_null \
         from_uri_is_null is_from_local is_uri_host_local check_from check_to db_check_from db_check_to",
        Needless,
        CHECKS,
    ),
    (
        "logging",
        "xlog xdbg xerr xwarn xinfo xnotice xcrit log",
        Needless,
        LOGS,
    ),
    (
        "NATs",
        "nat_uac_test fix_nated_* force_rport add_rcv_param client_nat_test nat_keepalive fix_contact \
         set_contact_alias",
        Needless,
        NAT,
    ),
    (
        "media",
        "rtpproxy_* rtpengine_* force_rtp_proxy unforce_rtp_proxy engage_rtp_proxy use_media_proxy \
         end_media_session set_rtp* sdp_* rtp_manage*",
        Missing,
        MEDIA,
    ),
    (
        "accounting",
        "do_accounting drop_accounting acc_*",
        Missing,
        RECORDS,
    ),
    (
        "guarding",
        "pike_check_req rl_check pl_check* sht_* secf_*",
        Needless,
        GUARDS,
    ),
    (
        "asking for passwords",
        "www_authorize www_challenge proxy_authorize proxy_challenge auth_check auth_challenge \
         consume_credentials pv_www_authenticate pv_auth_check pv_proxy_authenticate append_rpid_hf \
         is_user_in",
        Differs,
        AUTH,
    ),
    (
        "keeping phones",
        "save lookup registered unregister reg_fetch_contacts lookup_branches reg_free_contacts",
        Needless,
        PHONES,
    ),
    (
        "trusting",
        "allow_* check_address check_source_address get_source_group ds_is_from_list ds_is_in_list \
         lb_is_destination is_from_gw goes_to_gw dr_is_gw is_gw",
        Differs,
        TRUSTED,
    ),
    (
        "placing calls",
        "ds_select* lb_start* load_balance do_routing route_to_gw route_to_carrier",
        Needless,
        "the pools and routes have what this is for",
    ),
    (
        "counting calls",
        "create_dialog dlg_manage match_dialog set_dlg_profile get_profile_size set_dlg_flag \
         validate_dialog fix_route_dialog dlg_* get_dialog_info",
        Needless,
        DIALOGS,
    ),
    (
        "changing headers",
        "append_hf insert_hf remove_hf append_to_reply subst* replace* append_time remove_body_part \
         search* append_urihf set_body* set_reply_body",
        Differs,
        HEADERS,
    ),
    (
        "changing numbers",
        "strip prefix strip_tail rewrite* dp_translate sethost* setuser alias_db_lookup lookup_domain \
         enum_* uac_* load_gws next_gw cr_* seturi revert_uri setdsturi subst_uri subst_user",
        Missing,
        NUMBERS,
    ),
    (
        "presence",
        "handle_publish handle_subscribe pua_* m_store m_dump rls_*",
        Missing,
        PRESENCE,
    ),
    (
        "hiding the topology",
        "topology_hiding* topoh*",
        Missing,
        TOPOLOGY,
    ),
];

/// A parameter of a module.
pub(crate) fn param(module: &str, name: &str) -> (Kind, &'static str) {
    let full = format!("{module}.{name}");
    known(MODULES, module)
        .or_else(|| known(PARAMS, &full))
        .unwrap_or(UNKNOWN)
}

/// A setting outside of modules.
pub(crate) fn setting(name: &str) -> (Kind, &'static str) {
    known(SETTINGS, name).unwrap_or(UNKNOWN)
}

/// A function: the group in which it is noted.
pub(crate) fn call(name: &str) -> (&'static str, Kind, &'static str) {
    let known = CALLS.iter().find(|(_, patterns, ..)| fits(patterns, name));
    known.map_or(("", Missing, SCRIPT), |(group, _, kind, text)| {
        (*group, *kind, text)
    })
}

/// A variable that a route writes to, if that changes the request.
pub(crate) fn assignment(variable: &str) -> Option<(Kind, &'static str)> {
    match variable {
        "ru" | "rU" | "rd" | "tu" | "fu" | "fU" => Some((Missing, NUMBERS)),
        "du" | "dd" | "rp" | "rP" => Some((ToDo, BY_ITSELF)),
        _ => None,
    }
}

fn known(meanings: &[Meaning], name: &str) -> Option<(Kind, &'static str)> {
    let found = meanings.iter().find(|(patterns, ..)| fits(patterns, name));
    found.map(|(_, kind, text)| (*kind, *text))
}

fn fits(patterns: &str, name: &str) -> bool {
    patterns
        .split_whitespace()
        .any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => pattern == name,
        })
}
